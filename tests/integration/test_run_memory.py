"""Memory is bounded by a page and a row group, whatever the size of a work unit."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tests.integration.dil_processes import dil_alone, report_of
from tests.jobs import visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset

ROWS = 300_000
LIMIT_BYTES = 400 * 10**6


@pytest.mark.spark
def test_three_hundred_thousand_rows_in_one_work_unit_fit_in_little_memory(tmp_path) -> None:
    with HttpServer(Dataset.generate(ROWS, units=("a",), step_ms=250)) as source:
        job = write_job(
            tmp_path,
            source.url,
            ms__watermark=json.dumps(
                [
                    {
                        "name": "system",
                        "type": "datetime",
                        "range": {"from": "2020-01-01", "to": "P0D"},
                    },
                    {"name": "unit", "type": "unit", "units": "a"},
                ]
            ),
            ms__parameters=json.dumps(
                [
                    {"name": "unit"},
                    {"name": "cursor", "type": "session"},
                    {"name": "limit", "type": "primitive", "value": 5000},
                ]
            ),
            ms__output__schema="",
        )
        done = dil_alone("run", job, "--now", "2020-01-02T00:00:00Z", "--json")

    assert done.returncode == 0, done.stderr
    report = report_of(done)
    assert (report["rows"], report["work_units"]["succeeded"]) == (ROWS, 1)
    assert 50 * 10**6 < report["peak_rss_bytes"] < LIMIT_BYTES
    files = [pq.ParquetFile(path) for path in visible_files(tmp_path)]
    assert sum(file.metadata.num_rows for file in files) == ROWS
    # Not one row group a page.
    assert max(file.metadata.row_group(0).num_rows for file in files) >= 65_536
