"""Registering in the catalog after a run that was, or is being, interrupted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dil import config
from dil.errors import RunInterruptedError
from dil.model.report import RunReport, RunStatus, UnitCounts
from dil.run import catalog_sync
from tests.jobs import write_job

REPORT = RunReport("orders", "r", RunStatus.SUCCESS, UnitCounts())


def synced(folder: Path, report: RunReport) -> RunReport:
    job = config.load(write_job(folder, "http://h", ms__catalog__type="glue"), environ={}).job
    nothing = cast("Any", None)
    return catalog_sync.sync_catalog(job, nothing, report, nothing)


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise RunInterruptedError("stopped", exit_code=143)

    monkeypatch.setattr(catalog_sync, "_register", stop)


def test_a_run_that_was_interrupted_asks_no_catalog(tmp_path: Path) -> None:
    report = replace(REPORT, forced_exit_code=143)
    assert synced(tmp_path, report) == report


def test_an_interruption_is_no_refusal_of_the_catalog(tmp_path: Path) -> None:
    with pytest.raises(RunInterruptedError):
        synced(tmp_path, REPORT)
