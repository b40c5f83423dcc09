"""Runs jobs and later acts on them in forked children that kill themselves at a chosen call.

The server reads one JSON line per order on stdin: {"job", "now", "at"} for a run, as in
kill_server.py. With the member "compact": {"target", "vacuum"} the order is for a compaction, with
"register" for the job's catalog. The server answers with one JSON line.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import deltalake  # noqa: F401 - loaded once, before any fork
import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow  # noqa: F401

import dil.catalog.glue
import dil.publishing.delta_vacuum
import dil.reshaping.shared_files  # noqa: F401
from dil import config
from dil.errors import DilError
from dil.execution.stages import Executors
from dil.model.report import RunReport, RunStatus, UnitCounts
from dil.operator.compaction import CompactionRequest, compact
from dil.run.catalog_sync import sync_catalog
from dil.state import open_store
from tests.torture import kill_server
from tests.torture.forks import Answer, killed_at, serve

REGISTERING = ("run/catalog_sync.py", "catalog/", "storage/")
WATCHED = ("operator/", "state/", "publishing/", "storage/")


def _run(order: Answer) -> Answer:
    if "compact" in order:
        return _compact(order)
    return _register(order) if "register" in order else kill_server._run(order)


def _register(order: Answer) -> Answer:
    job = config.load(Path(order["job"]), overrides={}, environ={}, lenient=False).job
    report = RunReport(job.name, "r", RunStatus.SUCCESS, UnitCounts())
    with (
        open_store(job.state, job.name, clock=lambda: order["now"]) as store,
        killed_at(order["at"], REGISTERING) as events,
    ):
        exit_code = sync_catalog(job, store, report, Executors(job, {})).exit_code
    return {"exit": exit_code, "events": events if order["at"] == -1 else []}


def _compact(order: Answer) -> Answer:
    job = config.load(Path(order["job"]), overrides={}, environ={}, lenient=False).job
    request = CompactionRequest(
        clock=lambda: time.time_ns() // 1_000_000,
        target_bytes=order["compact"]["target"],
        vacuum_hours=order["compact"]["vacuum"],
        files_per_commit=8,
    )
    with killed_at(order["at"], WATCHED) as events:
        try:
            compact(job, request)
            exit_code = 0
        except DilError as error:
            print(error, file=sys.stderr)
            exit_code = 1
    return {"exit": exit_code, "events": events if order["at"] == -1 else []}


if __name__ == "__main__":
    serve(_run, {"exit": None, "events": []})
