"""The report of a run, for machines and for people."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from dil.model.report import (
    MergedRows,
    ReplacedRows,
    ReportedFailure,
    RunReport,
    RunStatus,
    UnitCounts,
)
from dil.observe.report import redacted, report_json, report_text, write_report

PARTIAL = RunReport(
    job="orders",
    run_id="20240305T080000-ab12",
    status=RunStatus.PARTIAL,
    units=UnitCounts(planned=10, succeeded=5, failed=3, adopted=1, not_started=1),
    rows=12_345,
    bytes=1_500_000,
    files=("file:///data/orders/part-1.avro", "file:///data/orders/part-2.avro"),
    failures=(
        ReportedFailure("[watermark.a.1]", "DIL-SRC-TRANSIENT", "GET /orders answered 503"),
        ReportedFailure("[watermark.a.2]", "DIL-SRC-TRANSIENT", "GET /orders answered 503"),
        ReportedFailure(
            "[watermark.a.3]", "DIL-CONVERT", "column total, row 7\nis not a number", "Mend it."
        ),
    ),
    seconds=83.4,
    dataset_dir="file:///data/orders",
    left=1200,
    recovered=("20240304T080000-cd34",),
    notes=("ms.timezone is not set; America/Los_Angeles is used",),
    requests=31,
    rows_read=12_400,
    rows_dropped=55,
    retries=4,
)

PARTIAL_TEXT = """\
orders  PARTIAL in 1 min 23 s  run 20240305T080000-ab12
  recovered   finished first: 20240304T080000-cd34
  work units  10 planned, 5 succeeded, 3 failed, 1 adopted from an earlier run, 1 not finished
  read        12,400 rows, 31 requests, 55 dropped, 4 tried again
  published   12,345 rows in 2 files, 1.5 MB
  where       file:///data/orders
  left        1,200 more work units are due, beyond the limit of one run
  failed      GET /orders answered 503  [DIL-SRC-TRANSIENT]
                [watermark.a.1]
                [watermark.a.2]
  failed      column total, row 7  [DIL-CONVERT]
              is not a number
              Mend it.
                [watermark.a.3]
  note        ms.timezone is not set; America/Los_Angeles is used
  next        Run the job again: work units that failed are due first.
"""


def run(status: RunStatus, **changes: object) -> RunReport:
    values: dict[str, object] = {
        "job": "orders", "run_id": "r1", "status": status, "units": UnitCounts(1, 1), "seconds": 2.0
    }  # fmt: skip
    return RunReport(**(values | changes))  # type: ignore[arg-type]


def test_the_summary_says_that_a_query_failed() -> None:
    failure = ReportedFailure(None, "DIL-QUERY", "Spark refuses the query")
    units = UnitCounts(planned=1, not_started=1)
    text = report_text(run(RunStatus.FAILED, units=units, failures=(failure,)))

    assert "  work units  1 planned, 0 succeeded, the query failed\n" in text


def test_the_summary_tells_what_happened_where_and_what_to_do_next() -> None:
    assert report_text(PARTIAL) == PARTIAL_TEXT


def test_a_query_which_sends_no_requests_has_only_its_rows_in_the_summary() -> None:
    queried = run(RunStatus.SUCCESS, rows=3, rows_read=3)

    assert "  read        3 rows\n" in report_text(queried)


def test_rows_in_a_database_are_told_by_the_table_or_view_to_query() -> None:
    place = "postgresql://db.example/shop"
    loaded = run(RunStatus.SUCCESS, rows=3, relation="shop.orders_view", database=place)

    assert f"  where       shop.orders_view in {place}\n" in report_text(loaded)
    assert report_json(loaded)["relation"] == "shop.orders_view"
    assert report_json(loaded)["database"] == place
    assert "database" not in report_json(run(RunStatus.SUCCESS))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"merged": MergedRows(1200, 3)}, "  merged      1,200 inserted, 3 updated\n"),
        ({"merged": MergedRows(0, 3, 1)}, "  merged      0 inserted, 3 updated, 1 deleted\n"),
        ({"replaced": ReplacedRows(1, 3)}, "  replaced    1 row by 3, 2 more\n"),
        ({"replaced": ReplacedRows(1200, 3)}, "  replaced    1,200 rows by 3, 1,197 fewer\n"),
        ({"replaced": ReplacedRows(3, 3)}, "  replaced    3 rows by 3, as many\n"),
        ({"replaced": ReplacedRows(0, 3)}, ""),
    ],
)
def test_what_became_of_the_rows_of_the_dataset_is_told(
    changes: dict[str, object], line: str
) -> None:
    report = run(RunStatus.SUCCESS, rows=3, **changes)

    assert line in report_text(report)
    if not line:
        assert "replaced" not in report_text(report)
    ((name, counts),) = changes.items()
    assert report_json(report)[name] == asdict(counts)  # type: ignore[call-overload]


def test_a_backfill_does_not_claim_to_have_published() -> None:
    text = report_text(run(RunStatus.SUCCESS, rows=3, files=("f",), is_backfill=True))

    assert "  kept aside  3 rows in 1 file" in text
    assert "published" not in text


def test_the_json_report_keeps_the_contract() -> None:
    report = report_json(PARTIAL)

    assert json.loads(json.dumps(report)) == report
    assert report["status"] == "partial"
    assert report["work_units"] == {
        "planned": 10, "succeeded": 5, "failed": 3, "adopted": 1, "not_started": 1,
    }  # fmt: skip
    assert report["failures"][2] == {  # type: ignore[index]
        "signature": "[watermark.a.3]",
        "code": "DIL-CONVERT",
        "error": "column total, row 7\nis not a number",
        "fix": "Mend it.",
    }
    assert {"job", "run_id", "rows", "bytes", "files", "seconds"} <= report.keys()
    assert report["files"] == list(PARTIAL.files)


def test_nothing_due_says_that_nothing_has_changed() -> None:
    text = report_text(run(RunStatus.NOTHING_DUE, units=UnitCounts()))

    assert "NOTHING DUE" in text
    assert "none; nothing was read, nothing has changed" in text
    assert "ZERO ROWS" not in text


def test_zero_rows_of_a_successful_run_are_said_loudly() -> None:
    assert "ZERO ROWS" in report_text(run(RunStatus.SUCCESS))


def test_a_failed_run_says_that_nothing_was_published() -> None:
    text = report_text(run(RunStatus.FAILED, units=UnitCounts(1, 0, 1)))

    assert "published   nothing" in text


def test_a_run_that_a_signal_ended_is_called_interrupted() -> None:
    stopped = run(RunStatus.FAILED, failures=(ReportedFailure(None, "DIL-INTERRUPTED", "x"),))

    assert "  INTERRUPTED in " in report_text(stopped).splitlines()[0]
    assert report_json(stopped)["interrupted"] is True
    assert report_json(stopped)["status"] == "failed"


def test_a_failed_work_unit_says_how_often_and_how_long_it_was_tried() -> None:
    failure = ReportedFailure("[s]", "DIL-SRC", "x", "", attempts=3, seconds=1.5)

    [found] = report_json(run(RunStatus.FAILED, failures=(failure,)))["failures"]  # type: ignore[misc]

    assert (found["attempts"], found["seconds"]) == (3, 1.5)


def test_rows_in_a_warehouse_have_no_files() -> None:
    assert "published   5 rows, 0 B" in report_text(run(RunStatus.SUCCESS, rows=5))


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("DIL-SRC-AUTH", "credentials"),
        ("DIL-COMMIT-UNKNOWN", "Nothing was deleted"),
        ("DIL-QUOTA", "quota is renewed"),
    ],
)
def test_the_next_step_fits_the_failure(code: str, advice: str) -> None:
    failed = run(RunStatus.FAILED, failures=(ReportedFailure(None, code, "x"),))

    assert advice in report_text(failed).rpartition("  next  ")[2]


def test_advice_about_the_state_store_fits_what_is_wrong_with_it() -> None:
    def text(fix: str) -> str:
        failure = ReportedFailure(None, "DIL-STATE", "x", fix)
        return report_text(run(RunStatus.FAILED, failures=(failure,)))

    assert "dil state verify" in text("")
    assert text("Check that the server runs.").endswith("Check that the server runs.\n")


@pytest.mark.parametrize(
    ("code", "fix", "says"),
    [
        ("DIL-CONVERT", "Mend it.", ""),
        ("DIL-CONVERT", "", "when the cause is fixed."),
        ("DIL-SRC-TRANSIENT", "Look there.", "when the cause is fixed."),
        ("DIL-INTERRUPTED", "", "Run the job again."),
    ],
)
def test_a_failed_run_is_to_be_run_again_only_where_nothing_has_to_be_mended_first(
    code: str, fix: str, says: str
) -> None:
    failure = ReportedFailure("[s]", code, "x", fix)
    failed = run(RunStatus.FAILED, units=UnitCounts(1, 0, 1), failures=(failure,))

    text = report_text(failed)

    assert fix in text
    assert text.rstrip().endswith(says or "[s]")
    assert "due first" not in text


def test_only_what_was_complete_is_said_to_be_kept() -> None:
    def step(units: UnitCounts, *codes: str) -> str:
        failures = tuple(ReportedFailure("[s]", code, "x") for code in codes)
        report = run(RunStatus.FAILED, units=units, failures=failures)
        return report_text(report).rpartition("  next  ")[2].strip()

    for kept in (UnitCounts(3, 2, 1), UnitCounts(3, 0, 1, adopted=2)):
        assert step(kept, "DIL-SRC-TRANSIENT").endswith("again: successful work units are kept.")
        assert step(kept, "DIL-INTERRUPTED").endswith("again: successful work units are kept.")
    assert "kept" not in step(UnitCounts(1, 0, 1), "DIL-SRC-TRANSIENT")
    assert step(UnitCounts(1), "DIL-INTERRUPTED") == "Run the job again."


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.PARTIAL])
def test_what_may_have_been_done_is_looked_at_before_the_job_is_run_again(
    status: RunStatus,
) -> None:
    failures = (
        ReportedFailure("[a]", "DIL-SRC-AUTH", "x"),
        ReportedFailure("[b]", "DIL-SRC-UNKNOWN", "y", "Look at the receiver whether it has it."),
    )
    text = report_text(run(status, rows=1, failures=failures))

    assert "Check the receiver first" in text.rpartition("  next  ")[2]


def test_one_of_a_kind_is_said_in_the_singular() -> None:
    failed = run(
        RunStatus.PARTIAL,
        rows=1,
        files=("file:///x",),
        rows_read=1,
        left=1,
        failures=tuple(ReportedFailure(f"[{n}]", "DIL-SRC", "x") for n in range(4)),
    )

    text = report_text(failed)

    assert "1 row in 1 file" in text
    assert "1 more work unit is due" in text
    assert "and 1 more work unit\n" in text


def test_many_failures_are_counted_not_listed() -> None:
    alike = [ReportedFailure(f"[s.{n}]", "DIL-SRC", "refused") for n in range(500)]
    different = [ReportedFailure(None, "DIL-SRC", f"kind {n}") for n in range(20)]

    text = report_text(run(RunStatus.FAILED, failures=(*alike, *different)))

    assert "and 497 more work units" in text
    assert "11 more kinds of failure" in text
    assert len(text.splitlines()) < 30


def test_redaction_masks_free_text_and_leaves_files_and_signatures_exact() -> None:
    report = redacted(
        run(
            RunStatus.FAILED,
            files=("file:///data/hunter2/part-1",),
            failures=(ReportedFailure("[s.hunter2]", "DIL-SRC", "hunter2 refused", "not hunter2"),),
            notes=("hunter2 is weak",),
        ),
        lambda text: text.replace("hunter2", "***"),
    )

    assert report.files == ("file:///data/hunter2/part-1",)
    assert report.failures == (ReportedFailure("[s.hunter2]", "DIL-SRC", "*** refused", "not ***"),)
    assert report.notes == ("*** is weak",)


def test_the_report_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    target.chmod(0o640)

    write_report(target, PARTIAL)

    assert json.loads(target.read_text()) == report_json(PARTIAL)
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()

    with pytest.raises(OSError, match="report"):
        write_report(tmp_path / "report", PARTIAL)

    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_report_behind_a_link_is_written_through_it(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("real.json")

    write_report(link, PARTIAL)

    assert link.is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["job"] == "orders"
