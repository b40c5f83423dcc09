"""The jobs of the fault matrix, and what they published, row by row."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from tests.jobs import SCHEMA, visible_files
from tests.servers.faulty_server import FaultySource

# Pages of a work unit, and the rows of one.
PAGES, LIMIT = 5, 5
ROWS = PAGES * LIMIT
COLUMNS = [column["columnName"] for column in SCHEMA]
Rows = dict[str, Counter[str]]
JOB = {
    "source.class": "tests.servers.hasty_http.HastyHttp",
    "ms.parameters": json.dumps(
        [
            {"name": "unit"},
            {"name": "since", "type": "watermark", "value": "low"},
            {"name": "until", "type": "watermark", "value": "high"},
            {"name": "cursor", "type": "session"},
            {"name": "limit", "type": "primitive", "value": LIMIT},
        ]
    ),
    "ms.http.retry.max": "1",
    "ms.http.response.max.seconds": "1",
    "ms.ssl": json.dumps({"connectionTimeoutSeconds": 1, "socketTimeoutSeconds": 1}),
    "task.maxretries": "1",
    "task.retry.intervalinsec": "0",
    "job.commit.policy": "successful",
}


def held(source: FaultySource) -> Rows:
    """Count the rows that the source holds for each unit, in the columns of the job."""
    return {
        unit: Counter(
            json.dumps([json.loads(row)[name] for name in COLUMNS]) for row in rows.encoded
        )
        for unit, rows in source.dataset.units.items()
    }


def published(folder: Path) -> Rows:
    """Count the rows of the published files for each unit."""
    rows: Rows = {}
    for file in visible_files(folder):
        for row in pq.read_table(file).to_pylist():
            text = json.dumps([row[name] for name in COLUMNS])
            rows.setdefault(row["unit"], Counter())[text] += 1
    return rows


def watermark(*units: str) -> dict[str, str]:
    """Return one day of these units."""
    range_ = {"from": "2020-01-01", "to": "P0D"}
    return {
        "ms.watermark": json.dumps(
            [
                {"name": "system", "type": "datetime", "range": range_},
                {"name": "unit", "type": "unit", "units": ",".join(units)},
            ]
        )
    }
