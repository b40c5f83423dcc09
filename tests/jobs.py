"""Job files for end-to-end tests, and what they published, read by independent readers."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dil.model.job import (
    ClassRef,
    ConversionSpec,
    ExtractionSpec,
    Job,
    PlanningSpec,
    PublishingSpec,
    RunningSpec,
    SourceSpec,
    StateSpec,
    WritingSpec,
)
from dil.model.properties import Properties

ROOT = Path(__file__).resolve().parents[1]
DIL = [sys.executable, "-m", "dil.cli"]
DAY_MS = 86_400_000

SCHEMA = [
    {"columnName": "id", "isNullable": False, "dataType": {"type": "long"}},
    {"columnName": "unit", "isNullable": False, "dataType": {"type": "string"}},
    {"columnName": "updated_ms", "isNullable": False, "dataType": {"type": "long"}},
    {"columnName": "amount", "isNullable": True, "dataType": {"type": "double"}},
    {"columnName": "note", "isNullable": True, "dataType": {"type": "string"}},
]


def properties(folder: Path, url: str, **changes: str) -> dict[str, str]:
    """Return a small cursor job: daily partitions x units a and b, from 2020-01-01 UTC."""
    facts = {
        "job.name": "orders",
        "source.class": "http",
        "ms.extractor.class": "json",
        "ms.source.uri": f"{url}/records",
        "extract.namespace": "shop",
        "extract.table.name": "orders",
        "extract.table.type": "APPEND_ONLY",
        "ms.timezone": "UTC",
        "ms.watermark": json.dumps(
            [
                {
                    "name": "system",
                    "type": "datetime",
                    "range": {"from": "2020-01-01", "to": "P0D"},
                },
                {"name": "unit", "type": "unit", "units": "a,b"},
            ]
        ),
        "ms.work.unit.partition": "daily",
        "ms.parameters": json.dumps(
            [
                {"name": "unit"},
                {"name": "since", "type": "watermark", "value": "low"},
                {"name": "until", "type": "watermark", "value": "high"},
                {"name": "cursor", "type": "session"},
                {"name": "limit", "type": "primitive", "value": 100},
            ]
        ),
        "ms.session.key.field": json.dumps({"name": "next"}),
        "ms.data.field": "data",
        "ms.output.schema": json.dumps(SCHEMA),
        "writer.output.format": "PARQUET",
        "writer.file.path.type": "namespace_table",
        "data.publisher.final.dir": str(folder / "lake"),
        "state.store.dir": str(folder / "state"),
        "ms.http.retry.max": "0",
        "task.maxretries": "0",
    }
    given = {name.replace("__", "."): value for name, value in changes.items()}
    if "session" not in given.get("ms.parameters", "session"):
        del facts["ms.session.key.field"]  # nothing would send it
    return {**facts, **given}


def write_job(folder: Path, url: str, **changes: str) -> Path:
    """Write the job file and return its path; dots in names are double underscores here."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "orders.conf"
    lines = [f"{name}={value}" for name, value in properties(folder, url, **changes).items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def dataset(folder: Path) -> Path:
    """Return the dataset's folder of ``write_job``'s job."""
    return folder / "lake" / "shop" / "orders"


def visible_files(folder: Path) -> list[Path]:
    """Return what a reader of the directory sees: no path part begins with _ or a dot."""
    found: list[Path] = []
    # What is hidden is not walked through: a run may delete it meanwhile.
    for place, folders, names in os.walk(folder / "lake"):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found += [Path(place) / name for name in names if not name.startswith(("_", "."))]
    return sorted(found)


def manifest_files(folder: Path) -> list[Path]:
    """Return what a reader of the newest manifest sees."""
    meta = dataset(folder) / "_dil"
    if not (meta / "current.json").exists():
        return []
    hint = json.loads((meta / "current.json").read_text())
    manifest = json.loads((meta / hint["manifest"]).read_text())
    return sorted(Path(file["uri"].removeprefix("file://")) for file in manifest["files"])


def complete_units(folder: Path) -> set[str]:
    """Return the signatures whose attempts are complete in staging: a run to come adopts them."""
    staging = folder / "lake" / "_staging"
    results = [*staging.rglob("result.json"), *staging.rglob("results-*.jsonl")]
    lines = [line for path in results for line in path.read_bytes().splitlines()]
    return {json.loads(line)["work_unit"]["signature"] for line in lines}


def published_ids(files: list[Path]) -> Counter[tuple[str, int]]:
    """Count the rows of Parquet files by (unit, id)."""
    rows: Counter[tuple[str, int]] = Counter()
    for file in files:
        table = pq.read_table(file, columns=["unit", "id"])
        rows.update(zip(table["unit"].to_pylist(), table["id"].to_pylist(), strict=True))
    return rows


def bare_job(**parts: Any) -> Job:
    """Return a job that no file describes, with some of its parts given."""
    usual: dict[str, Any] = {
        "name": "orders",
        "path": "orders.conf",
        "digest": "",
        "properties": Properties({}),
        "planning": PlanningSpec(),
        "source": SourceSpec(ClassRef("m", "C"), "http://x"),
        "extraction": ExtractionSpec(ClassRef("m", "E")),
        "conversion": ConversionSpec(),
        "writing": WritingSpec(),
        "publishing": PublishingSpec("file:///out", "orders"),
        "running": RunningSpec(),
        "state": StateSpec(),
    }
    return Job(**{**usual, **parts})
