"""Whole runs over a source whose rows change: contract, quarantine, drift, kill safety."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil import config
from dil.model.report import RunReport, RunStatus
from dil.observe.report import report_text
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import dataset, manifest_files, properties, visible_files
from tests.servers.day_rows import DayRows
from tests.stories import REAL_NOW, day, executor
from tests.torture.kills import KillServer, restore, spread, steps

KILLS = 15


class Ledger:
    """One job in a folder, and what its dataset holds."""

    def __init__(self, folder: Path, source: DayRows) -> None:
        self.folder = folder
        self.source = source
        self._runs = 0

    def conf(self, **changes: str) -> Path:
        facts = {
            **properties(self.folder, self.source.url, **changes),
            "ms.watermark": json.dumps(
                [{"name": "system", "type": "datetime",
                  "range": {"from": "2020-01-01", "to": "P0D"}}]
            ),
            "ms.parameters": json.dumps([{"name": "since", "type": "watermark", "value": "low"}]),
            "ms.session.key.field": "",
        }  # fmt: skip
        if "ms__output__schema" not in changes:
            facts["ms.output.schema"] = ""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "orders.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))
        return path

    def run(self, days: int, **changes: str) -> RunReport:
        """Run as of the end of a day."""
        self._runs += 1
        options = RunOptions(
            now_ms=day(days),
            clock=lambda: REAL_NOW,
            executor=executor(),
            run_id=f"run-{self._runs}",
        )
        return run_job(config.load(self.conf(**changes), environ={}).job, options)

    def rows(self) -> list[dict[str, Any]]:
        assert manifest_files(self.folder) == visible_files(self.folder)
        tables = [pq.read_table(path) for path in visible_files(self.folder)]
        return sorted((row for t in tables for row in t.to_pylist()), key=lambda row: row["name"])

    def schemas(self) -> set[pa.Schema]:
        return {pq.read_schema(path).remove_metadata() for path in visible_files(self.folder)}

    def quarantined(self) -> list[dict[str, Any]]:
        files = sorted((dataset(self.folder) / "_quarantine").glob("*.json"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows({day(0): [{"id": 1, "name": "a"}]}) as server:
        yield server


@pytest.fixture
def ledger(tmp_path: Path, source: DayRows) -> Ledger:
    return Ledger(tmp_path / "job", source)


MIXED = [{"id": 2, "name": "b"}, {"id": "two", "name": "c"}, {"id": 3, "name": "d", "new": True}]


def test_evolve_accepts_a_new_column_and_tells_drift_with_the_command_that_fills_it(
    ledger: Ledger, source: DayRows
) -> None:
    first = ledger.run(1)
    source.days[day(1)] = [{"id": 2**40, "new": True}]
    second = ledger.run(2)

    assert first.drift == ()
    assert [(one.column, one.change) for one in second.drift] == [
        ("new", "added"),
        ("id", "widened"),
        ("name", "missing"),
    ]
    text = report_text(second)
    assert 'new column "new" (bool)' in text
    assert "-D ms.backfill=true -D ms.publish.mode=window_replace" in text
    assert second.aside.rows == 0


def test_the_recorded_schema_grows_and_is_compared_once(ledger: Ledger, source: DayRows) -> None:
    ledger.run(1)
    source.days[day(1)] = [{"id": 2, "new": True}]
    ledger.run(2)
    source.days[day(2)] = [{"id": 3, "name": "c", "new": False}]
    assert ledger.run(3).drift == ()


def test_the_advised_backfill_fills_the_new_column_and_doubles_no_row(
    ledger: Ledger, source: DayRows
) -> None:
    ledger.run(1)
    source.days[day(1)] = [{"id": 2, "name": "b", "new": True}]
    ledger.run(2)
    source.days[day(0)] = [{"id": 1, "name": "a", "new": False}]

    ledger.run(2, ms__backfill="true", ms__publish__mode="window_replace")

    assert [(row["id"], row["new"]) for row in ledger.rows()] == [(1, False), (2, True)]


def test_freeze_fails_the_work_unit_and_publishes_nothing_of_it(
    ledger: Ledger, source: DayRows
) -> None:
    ledger.run(1)
    source.days[day(1)] = MIXED
    report = ledger.run(2, ms__schema__contract="freeze")

    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)
    (failure,) = report.failures
    assert failure.code == "DIL-CONVERT"
    assert 'column "id", row 2 of page 1: a value read as string' in failure.error
    assert "two" not in failure.error
    assert [row["id"] for row in ledger.rows()] == [1]

    once = ledger.run(2, ms__schema__contract="evolve")
    assert once.status is RunStatus.SUCCESS


def test_under_freeze_files_stay_of_one_schema(ledger: Ledger, source: DayRows) -> None:
    source.days[day(0)] = [{"id": 2**40, "name": "a"}]
    ledger.run(1)
    source.days[day(1)] = [{"id": 2}]
    ledger.run(2, ms__schema__contract="freeze")
    assert len(ledger.schemas()) == 1


def test_discard_row_publishes_the_good_rows_and_keeps_the_others_with_their_reason(
    ledger: Ledger, source: DayRows
) -> None:
    ledger.run(1)
    source.days[day(1)] = MIXED
    report = ledger.run(2, ms__schema__contract="discard_row")

    assert (report.status, report.exit_code, report.rows) == (RunStatus.SUCCESS, 0, 1)
    assert [row["id"] for row in ledger.rows()] == [1, 2]
    assert (report.rows_read, report.rows_dropped) == (3, 2)
    assert report.aside.rows == 2
    assert report.aside.folder == str(dataset(ledger.folder) / "_quarantine")
    assert "QUARANTINE  2 rows put aside" in report_text(report)
    assert [(line["row"]["name"], line["column"]) for line in ledger.quarantined()] == [
        ("c", "id"),
        ("d", "new"),
    ]
    line = ledger.quarantined()[0]
    assert (line["run_id"], line["attempt"], line["page"], line["row_number"]) == ("run-2", 1, 1, 2)
    assert line["work_unit"].startswith("[watermark.system.")


def test_discard_value_keeps_every_row_and_counts_what_it_left_out(
    ledger: Ledger, source: DayRows
) -> None:
    ledger.run(1)
    source.days[day(1)] = MIXED
    report = ledger.run(2, ms__schema__contract="discard_value")

    assert [row["name"] for row in ledger.rows() if row["id"] is not None] == ["a", "b", "d"]
    assert (report.rows, report.rows_dropped, report.aside.rows) == (3, 0, 0)
    assert {one.column: one.values for one in report.aside.discarded} == {"id": 1, "new": 1}
    assert ledger.quarantined() == []
    assert len(ledger.schemas()) == 1


def test_a_work_unit_of_which_every_row_is_put_aside_succeeds_and_is_not_read_again(
    ledger: Ledger, source: DayRows
) -> None:
    ledger.run(1)
    source.days[day(1)] = [{"id": "x"}]
    report = ledger.run(2, ms__schema__contract="discard_row")
    assert (report.status, report.rows, report.aside.rows) == (RunStatus.SUCCESS, 0, 1)
    assert len(ledger.quarantined()) == 1
    assert ledger.run(2, ms__schema__contract="discard_row").status is RunStatus.NOTHING_DUE


def test_a_declared_schema_is_the_contract_on_the_first_run_already(
    ledger: Ledger, source: DayRows
) -> None:
    columns = [
        {"columnName": "id", "isNullable": False, "dataType": {"type": "long"}},
        {"columnName": "name", "dataType": {"type": "string"}},
    ]
    source.days[day(0)] = [*MIXED, {"id": None, "name": "e"}]
    report = ledger.run(
        1, ms__schema__contract="discard_row", ms__output__schema=json.dumps(columns)
    )
    assert [row["id"] for row in ledger.rows()] == [2]
    assert [line["row_number"] for line in ledger.quarantined()] == [2, 3, 4]
    assert report.aside.rows == 3


def test_a_limit_of_rows_aside_fails_the_work_unit(ledger: Ledger, source: DayRows) -> None:
    ledger.run(1)
    source.days[day(1)] = MIXED
    facts = {"ms__schema__contract": "discard_row", "ms__quarantine__max__rows": "1"}
    report = ledger.run(2, **facts)
    assert report.status is RunStatus.FAILED
    assert ledger.quarantined() == []
    assert "ms.quarantine.max.rows" in report.failures[0].fix


def test_without_quarantine_rows_are_dropped_and_that_is_said(
    ledger: Ledger, source: DayRows
) -> None:
    ledger.run(1)
    source.days[day(1)] = MIXED
    facts = {"ms__schema__contract": "discard_row", "ms__quarantine__enabled": "false"}
    report = ledger.run(2, **facts)
    assert (report.rows, report.rows_dropped, report.aside.rows) == (1, 2, 0)
    assert "DROPPED     2 rows" in report_text(report)
    assert not (dataset(ledger.folder) / "_quarantine").exists()


def test_a_window_read_again_replaces_its_own_rows_aside_only(
    ledger: Ledger, source: DayRows
) -> None:
    facts = {
        "ms__schema__contract": "discard_row",
        "ms__publish__mode": "window_replace",
        "ms__grace__period__days": "1",
    }
    ledger.run(1, **facts)
    source.days[day(1)] = [{"id": "x", "name": "b"}, {"id": 2, "name": "c"}]
    ledger.run(2, **facts)
    source.days[day(2)] = [{"id": "y"}]
    source.days[day(1)] = [{"id": "z", "name": "b"}, {"id": 2, "name": "c"}]

    ledger.run(3, **facts)

    assert sorted(line["row"]["id"] for line in ledger.quarantined()) == ["y", "z"]


def test_killed_at_any_step_and_run_again_every_row_is_published_or_aside_once(
    tmp_path: Path, source: DayRows, kills: KillServer
) -> None:
    base, live = tmp_path / "before", tmp_path / "job"
    ledger = Ledger(live, source)
    facts = {"ms__schema__contract": "discard_row", "ms__publish__mode": "window_replace"}
    job = ledger.conf(**facts)
    assert kills.run(job, day(1))["exit"] == 0
    shutil.copytree(live, base)
    source.days[day(1)] = MIXED
    source.days[day(2)] = [{"id": "x", "name": "e"}, {"id": 4, "name": "f"}]

    whole = kills.run(job, day(3))
    assert whole["exit"] == 0
    chosen = sorted(set(steps(whole["events"]).values()))
    for at in spread(chosen, KILLS):
        restore(base, live)
        assert kills.run(job, day(3), at)["killed"]
        for line in ledger.quarantined():
            assert line["row"]["name"] in "cde", f"killed at {at}"
        assert kills.run(job, day(3))["exit"] == 0
        step = f"killed at {at}: {whole['events'][at]}"
        assert [row["id"] for row in ledger.rows()] == [1, 2, 4], step
        assert sorted(line["row"]["name"] for line in ledger.quarantined()) == list("cde"), step
