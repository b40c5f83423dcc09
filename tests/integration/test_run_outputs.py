"""What readers of every output format find, and how files and folders are named."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tests.integration.dil_processes import dil, report_of
from tests.jobs import visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset
from tests.stories import Story

NOW = "2020-01-03T00:00:00Z"
SCHEMA = json.dumps(
    [
        {"columnName": "id", "isNullable": False, "dataType": {"type": "long"}},
        {"columnName": "unit", "isNullable": False, "dataType": {"type": "string"}},
        {"columnName": "amount", "isNullable": True, "dataType": {"type": "double"}},
        {"columnName": "active", "isNullable": True, "dataType": {"type": "boolean"}},
        {"columnName": "note", "isNullable": True, "dataType": {"type": "string"}},
    ]
)
COLUMNS = ("id", "unit", "amount", "active", "note")


@pytest.fixture
def source():
    with HttpServer(Dataset.generate(8, units=("a", "b"), step_ms=DAY_MS // 4)) as server:
        yield server


def read_avro(path: Path) -> list[dict]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def read_csv(path: Path) -> list[dict]:
    """Read with the standard library, whose cells are text; an empty one is null."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {
                "id": int(row["id"]),
                "unit": row["unit"],
                "amount": float(row["amount"]),
                "active": {"true": True, "false": False}[row["active"]],
                "note": row["note"] or None,
            }
            for row in csv.DictReader(file)
        ]


READERS = {
    "AVRO": read_avro,
    "CSV": read_csv,
    "JSON": lambda path: [json.loads(line) for line in path.read_text("utf-8").splitlines()],
    "ORC": lambda path: orc.read_table(path).to_pylist(),
    "PARQUET": lambda path: pq.read_table(path).to_pylist(),
}


@pytest.mark.parametrize("output", READERS)
def test_every_format_gives_back_the_rows_of_the_source(output, source, tmp_path) -> None:
    story = Story(tmp_path, source, writer__output__format=output, ms__output__schema=SCHEMA)

    report = story.run(START_MS + 2 * DAY_MS)

    assert report.rows == 16
    files = visible_files(tmp_path)
    assert {path.suffix for path in files} == {f".{output.lower()}"}
    found = [row for path in files for row in READERS[output](path)]
    expected = [
        {name: row[name] for name in COLUMNS}
        for unit in ("a", "b")
        for row in map(json.loads, source.dataset.of(unit).encoded)
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert tuple(found[0]) == COLUMNS


@pytest.mark.spark
def test_a_run_has_its_folder_its_counts_and_its_permissions(source, tmp_path) -> None:
    job = write_job(
        tmp_path,
        source.url,
        ms__output__schema=SCHEMA,
        writer__output__format="AVRO",
        writer__file__path__type="default",
        writer__include__record__count__in__file__names="true",
        data__publisher__permissions="750",
        writer__file__permissions="640",
    )

    done = dil("run", job, "--now", NOW, "--json")

    assert done.returncode == 0, done.stderr
    report = report_of(done)
    files = visible_files(tmp_path)
    assert sorted(report["files"]) == sorted(path.as_uri() for path in files)
    (folder,) = {path.parent for path in files}
    assert folder.name == "20200103000000_full"
    assert {path.name.split(".")[1:] == ["4", "avro"] for path in files} == {True}
    assert all(path.name.startswith(f"part-{report['run_id']}-") for path in files)
    assert len([row for path in files for row in read_avro(path)]) == report["rows"] == 16
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o640}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    assert not any(path.name.endswith(".crc") for path in tmp_path.rglob("*"))


def test_files_begin_with_the_name_that_the_job_gives_them(source, tmp_path) -> None:
    names = {"writer__file__name": "orders", "ms__publish__mode": "window_replace"}
    story = Story(tmp_path, source, ms__grace__period__days="2", **names)

    story.run(START_MS + 2 * DAY_MS)
    first = visible_files(tmp_path)
    story.run(START_MS + 2 * DAY_MS + 1)

    files = visible_files(tmp_path)
    assert len(files) == len(first) == 4
    assert all(path.name.startswith("orders-") for path in files)


def test_a_file_beside_the_rows_says_what_they_are(source, tmp_path) -> None:
    keys = {"extract__primary__key__fields": "id", "extract__table__type": "APPEND_ONLY"}
    story = Story(tmp_path, source, writer__file__path__type="default", **keys)

    report = story.run(START_MS + 2 * DAY_MS)

    (folder,) = {path.parent for path in visible_files(tmp_path)}
    found = json.loads((folder / "_dil_metadata.json").read_text("utf-8"))
    assert folder.name.endswith("_full")
    assert found == {
        "format": 1,
        "run_id": report.run_id,
        "table_type": "APPEND_ONLY",
        "is_full": True,
        "primary_keys": ["id"],
        "delta_fields": [],
    }
