"""What changed in the schema, which rows were put aside, and how that is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dil import config
from dil.model.job import Job
from dil.model.report import RowsAside, RunReport, RunStatus, SchemaDrift, UnitCounts
from dil.model.stream import StreamSpec
from dil.model.task import DiscardCount, RejectCount, StagedFile, TaskReport
from dil.observe.drift import drift, rows_aside
from dil.observe.report import report_json, report_text
from tests.jobs import write_job

BEFORE = "id: int32 not null\nname: string\nold: bool"


def job(folder: Path, mode: str = "append") -> Job:
    path = write_job(folder, "http://x", ms__publish__mode=mode)
    return config.load(path, environ={}).job


def report(schema: str, **members: object) -> TaskReport:
    return TaskReport("s", 0, 1, 1, schema=schema, **members)  # type: ignore[arg-type]


def test_columns_are_added_widened_or_missing(tmp_path: Path) -> None:
    after = "id: int64\nname: string\nold: bool\nnew: double"
    found = drift(job(tmp_path), BEFORE, after, [report("id: int64\nname: string\nnew: double")])
    assert [(one.column, one.change, one.before, one.after) for one in found] == [
        ("new", "added", "", "double"),
        ("id", "widened", "int32", "int64"),
        ("old", "missing", "bool", ""),
    ]


def test_a_column_that_any_work_unit_saw_is_not_missing(tmp_path: Path) -> None:
    reports = [report("id: int32"), report("name: string\nold: bool"), report("")]
    assert drift(job(tmp_path), BEFORE, BEFORE, reports) == ()


def test_columns_that_the_schema_leaves_out_are_drift_of_every_run(tmp_path: Path) -> None:
    reports = [report("id: int32", left_out=("mail", "rec.b")), report("", left_out=("mail",))]
    for before in ("", "id: int32"):
        found = drift(job(tmp_path), before, "id: int32", reports)
        assert [(one.column, one.change) for one in found] == [
            ("mail", "left out"),
            ("rec.b", "left out"),
        ]
        assert "ms.output.schema" in found[0].advice


def test_null_becoming_allowed_is_no_drift(tmp_path: Path) -> None:
    assert drift(job(tmp_path), "id: int32 not null", "id: int32", [report("id: int32")]) == ()


@pytest.mark.parametrize(("before", "seen"), [("", "id: int32"), (BEFORE, "")])
def test_nothing_is_told_on_the_first_run_or_without_rows(
    tmp_path: Path, before: str, seen: str
) -> None:
    assert drift(job(tmp_path), before, seen or before, [report(seen)]) == ()


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("append", " -D ms.backfill=true -D ms.publish.mode=window_replace"),
        ("window_replace", " -D ms.backfill=true"),
    ],
)
def test_an_added_column_comes_with_the_command_that_fills_older_rows(
    tmp_path: Path, mode: str, flags: str
) -> None:
    orders = job(tmp_path, mode)
    (one,) = drift(orders, "id: int32", "id: int32\nnew: bool", [report("id: int32\nnew: bool")])
    assert one.advice.endswith(f"dil run {orders.path}{flags}")


def test_the_command_for_the_job_of_a_stream_reads_once(tmp_path: Path) -> None:
    stream = replace(job(tmp_path, "window_replace"), stream=StreamSpec(checkpoint_dir="c"))
    (one,) = drift(stream, "id: int32", "id: int32\nnew: bool", [report("id: int32\nnew: bool")])
    assert one.advice.endswith(" -D ms.backfill=true -D ms.stream.mode=none")


def test_replaced_rows_all_have_the_new_column_so_nothing_is_advised(tmp_path: Path) -> None:
    changed = "id: int32\nnew: bool"
    (one,) = drift(job(tmp_path, "replace"), "id: int32", changed, [report(changed)])
    assert one.advice == ""


def test_rows_aside_add_up_over_work_units_the_most_frequent_reason_first() -> None:
    file = StagedFile("/q", 2, 10, "")
    reports = [
        report(
            "",
            quarantined=(file,),
            rejects=(RejectCount("a", "x", 1), RejectCount("b", "y", 1)),
        ),
        report(
            "",
            quarantined=(file,),
            rejects=(RejectCount("b", "y", 2),),
            discarded=(DiscardCount("c", 3),),
        ),
    ]
    assert rows_aside(reports, "/dataset/_quarantine") == RowsAside(
        4,
        "/dataset/_quarantine",
        (RejectCount("b", "y", 3), RejectCount("a", "x", 1)),
        (DiscardCount("c", 3),),
    )


def run_report(**members: object) -> RunReport:
    return RunReport("orders", "r1", RunStatus.SUCCESS, UnitCounts(1, 1), rows=5,
                     **members)  # type: ignore[arg-type]  # fmt: skip


def test_the_summary_says_rows_aside_loudly_with_folder_and_reasons() -> None:
    aside = RowsAside(1234, "/d/_quarantine", (RejectCount("id", "no number", 1234),))
    text = report_text(run_report(aside=aside))
    assert "QUARANTINE  1,234 rows put aside in /d/_quarantine" in text
    assert '1,234 rows: column "id": no number' in text


def test_rows_that_are_not_kept_are_said_to_be_dropped() -> None:
    text = report_text(run_report(aside=RowsAside(0, "", (RejectCount("id", "no number", 3),))))
    assert "DROPPED     3 rows, not kept: ms.quarantine.enabled is false" in text


def test_the_summary_tells_drift_and_left_out_values_in_few_lines() -> None:
    changes = [SchemaDrift(f"c{n}", "added", "", "struct<" + "x" * 100, "refill") for n in range(6)]
    found = (
        SchemaDrift("id", "widened", "int32", "int64"), SchemaDrift("old", "missing", "bool"),
        *changes,
    )  # fmt: skip
    aside = RowsAside(discarded=tuple(DiscardCount(f"d{n}", 1) for n in range(7)))
    text = report_text(run_report(drift=found, aside=aside))
    assert 'column "id" widened from int32 to int64' in text
    assert 'column "old" (bool) was not seen in this run' in text
    assert "3 more changes; --json lists all of them" in text
    assert text.count("refill") == 1
    assert '1 value of column "d4"' in text
    assert "values of 2 more columns" in text
    assert max(map(len, text.splitlines())) < 120


def test_the_json_report_holds_all_of_it() -> None:
    members = report_json(
        run_report(
            drift=(SchemaDrift("new", "added", "", "int32", "refill"),),
            aside=RowsAside(2, "/q", (RejectCount("id", "no", 2),), (DiscardCount("c", 3),)),
        )
    )
    json.dumps(members)
    assert members["quarantined"] == 2
    assert members["quarantine_dir"] == "/q"
    assert members["rejects"] == [{"column": "id", "reason": "no", "rows": 2}]
    assert members["discarded"] == [{"column": "c", "values": 3}]
    assert members["drift"] == [
        {"column": "new", "change": "added", "before": None, "after": "int32", "advice": "refill"}
    ]
    plain = report_json(run_report())
    assert (plain["quarantined"], plain["drift"]) == (0, [])
