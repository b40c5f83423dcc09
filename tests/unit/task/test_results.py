"""What an attempt stages, counts and says, and what it does when something breaks."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dil.task.context
from dil.errors import TransientSourceError, WriteError
from dil.model.task import TaskReport
from dil.publishing.staged import read_results
from dil.storage import LocalFilesystem
from tests.servers.rows import DAY_MS, START_MS
from tests.unit.task.scripted import NOW, Page, UnitTask, rows, work_unit

SECRET = "s3cret/canary+42"


def tables(report: TaskReport) -> list[pa.Table]:
    return [pq.read_table(file.path) for file in report.files]


class Recording(LocalFilesystem):
    """The real filesystem; remembers what each whole-file write found beside it."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, int]] = {}

    def put(self, path: str, data: bytes) -> None:
        beside = Path(path).parent
        self.found[Path(path).name] = {one.name: one.stat().st_size for one in beside.iterdir()}
        super().put(path, data)


class Refusing(LocalFilesystem):
    """The real filesystem, but for one method that finds the disk full."""

    def __init__(self, method: str) -> None:
        setattr(self, method, self._refuse)

    def _refuse(self, *args: object) -> None:
        raise WriteError("no space left on device")


# The result


def test_the_result_is_written_last_and_tells_everything(task: UnitTask, monkeypatch) -> None:
    filesystem = Recording()
    monkeypatch.setattr(dil.task.context, "filesystem_for", lambda *_: filesystem)
    task.script([Page(rows(1, 2), "c1"), Page(rows(3))])
    job = task.job()

    report = task.run(job)

    (file,) = report.files
    assert filesystem.found == {"result.json": {"part-0.parquet": file.bytes}}
    (result,) = read_results(filesystem, str(task.staging))
    assert result.report == report
    assert result.work_unit == work_unit()
    assert (result.run_id, result.run_now, result.digest) == ("r1", NOW, job.digest)
    assert result.full_extract is True


def test_an_attempt_whose_result_cannot_be_written_is_no_result(
    task: UnitTask, monkeypatch
) -> None:
    filesystem = Refusing("sync_folders")
    monkeypatch.setattr(dil.task.context, "filesystem_for", lambda *_: filesystem)
    task.script([Page(rows(1))])

    report = task.run()

    assert report.failure is not None
    assert (report.failure.code, report.files) == ("DIL-WRITE", ())
    assert list(read_results(LocalFilesystem(), str(task.staging))) == []


def test_a_failed_attempt_that_cannot_be_deleted_is_still_a_plain_failure(
    task: UnitTask, monkeypatch
) -> None:
    filesystem = Refusing("delete_tree")
    monkeypatch.setattr(dil.task.context, "filesystem_for", lambda *_: filesystem)
    task.script([Page(rows(1), "c1"), TransientSourceError("gone")])

    report = task.run()

    assert report.failure is not None
    assert report.failure.code == "DIL-SRC-TRANSIENT"


def test_rows_go_to_files_in_their_order_below_the_attempts_own_folder(task: UnitTask) -> None:
    task.script([Page(rows(3, 1), "c1"), Page(rows(2))])

    report = task.run()

    (file,) = report.files
    assert file.path.startswith(f"{task.staging}/{work_unit().hash}/1-")
    assert tables(report)[0]["id"].to_pylist() == [3, 1, 2]
    assert (report.rows, file.rows, file.bytes) == (3, 3, Path(file.path).stat().st_size)


def test_a_work_unit_without_rows_succeeds_without_a_file(task: UnitTask) -> None:
    task.script([Page()])

    report = task.run()

    assert (report.failure, report.files, report.schema) == (None, (), "")
    assert len(list(read_results(LocalFilesystem(), str(task.staging)))) == 1


def test_the_report_speaks_of_its_work_unit(task: UnitTask) -> None:
    task.script([Page(rows(1))])

    report = task.run()

    assert (report.signature, report.low, report.high) == ("s", START_MS, START_MS + DAY_MS)
    assert report.adopted is False


def test_pages_whose_types_widen_end_with_one_schema_in_all_files(task: UnitTask) -> None:
    task.script(
        [
            Page([{"id": 1, "v": 1}], "c1"),
            Page([{"id": 2, "v": 2.5}], "c2"),
            Page([{"id": 3, "v": None, "more": "x"}]),
        ]
    )

    report = task.run(task.job(ms__output__schema=""))

    found = tables(report)
    assert len({table.schema.remove_metadata() for table in found}) == 1
    together = pa.concat_tables(found).to_pylist()
    assert together == [
        {"id": 1, "v": 1.0, "more": None},
        {"id": 2, "v": 2.5, "more": None},
        {"id": 3, "v": None, "more": "x"},
    ]
    assert report.schema.splitlines() == ["id: int32", "v: double", "more: string"]


def test_columns_that_must_not_be_null_are_told_in_the_schema(task: UnitTask) -> None:
    task.script([Page(rows(1))])

    report = task.run()

    assert report.schema.splitlines()[:2] == ["id: int64 not null", "unit: string not null"]
    assert report.schema.splitlines()[-1] == "note: string"


# Counters


def test_what_the_walk_counted_is_reported(task: UnitTask) -> None:
    pages = [Page(rows(1, 2), "c1"), Page(rows(3))]
    task.script(pages)

    counters = task.run().counters

    sizes = sum(len(json.dumps({"data": page.rows, "next": page.cursor})) for page in pages)
    assert (counters.requests, counters.pages) == (2, 2)
    assert (counters.rows_read, counters.rows_written, counters.rows_dropped) == (3, 3, 0)
    assert counters.bytes_read == sizes
    assert counters.peak_rss_bytes > 1_000_000


def test_rows_that_are_dropped_count_as_read_and_not_as_written(task: UnitTask) -> None:
    incomplete = {**rows(2)[0], "unit": None}
    task.script([Page([*rows(1), incomplete, *rows(3)])])

    report = task.run(task.job(converter__avro__max__conversion__failures="1"))

    counters = report.counters
    assert (counters.rows_read, counters.rows_written, counters.rows_dropped) == (3, 2, 1)
    assert report.rows == 2


def test_a_row_too_many_that_cannot_be_converted_fails_the_work_unit(task: UnitTask) -> None:
    task.script([Page([{"id": 1, "note": "private"}, {"id": 2, "note": "private"}])])

    report = task.run(task.job(converter__avro__max__conversion__failures="1"))

    assert report.failure is not None
    assert report.failure.code == "DIL-CONVERT"
    assert "private" not in report.failure.error


def test_a_failed_attempt_reports_what_it_did_until_then(task: UnitTask) -> None:
    task.script([Page(rows(1, 2), "c1"), TransientSourceError("gone")])

    counters = task.run().counters

    assert (counters.requests, counters.rows_read) == (2, 2)


def test_answers_that_are_only_warnings_are_counted_and_noted(task: UnitTask) -> None:
    task.script([Page(warning="404 taken as no rows")])

    report = task.run()

    assert report.failure is None
    assert (report.counters.warnings, report.counters.pages) == (1, 0)
    assert len(report.notes) == 1


# Too few rows


@pytest.mark.parametrize(("least", "fails"), [("2", False), ("3", True)])
def test_fewer_rows_than_asked_for_fail_the_work_unit(
    task: UnitTask, least: str, fails: bool
) -> None:
    task.script([Page(rows(1, 2))])

    report = task.run(task.job(ms__work__unit__min__records=least))

    assert (report.failure is not None) is fails
    if report.failure is not None:
        assert report.failure.code == "DIL-SRC-CONTRACT"
        assert report.files == ()


# Row protocols


def test_a_row_protocol_brings_its_own_batches(task: UnitTask) -> None:
    task.script([Page([{"id": 1}, {"id": 2}]), Page([{"id": 3}])])

    report = task.run(task.job(connector="ScriptedRowConnector", ms__output__schema=""))

    assert report.failure is None
    assert [row["id"] for table in tables(report) for row in table.to_pylist()] == [1, 2, 3]
    assert (report.counters.requests, report.counters.rows_read) == (1, 3)


def test_a_row_protocol_that_breaks_off_fails_the_work_unit(task: UnitTask) -> None:
    script = task.script([Page([{"id": 1}]), TransientSourceError("gone")])

    report = task.run(task.job(connector="ScriptedRowConnector", ms__output__schema=""))

    assert report.failure is not None
    assert report.failure.code == "DIL-SRC-TRANSIENT"
    assert [session.closed for session in script.sessions] == [1]


# Plug-ins that break


def secret_job(task: UnitTask):
    return task.job(source__conn__password=SECRET)


@pytest.mark.parametrize(
    "told", [SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()]
)
def test_an_unknown_exception_names_the_connector_and_no_secret(
    task: UnitTask, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    task.script([RuntimeError(f"login with {told} went wrong")])

    report = task.run(secret_job(task))

    assert report.failure is not None
    assert report.failure.code == "DIL-PLUGIN"
    assert report.failure.retryable
    assert "ScriptedConnector: RuntimeError: login with *** went wrong" in report.failure.error
    assert told not in report.failure.error
    assert any(record.exc_info for record in caplog.records), "the traceback is in the log"


def test_an_error_of_ours_shows_no_secret_either(task: UnitTask) -> None:
    task.script([TransientSourceError(f"http://user:{SECRET}@host is down")])

    report = task.run(secret_job(task))

    assert report.failure is not None
    assert SECRET not in report.failure.error


def test_the_result_of_an_attempt_holds_no_secret(task: UnitTask) -> None:
    task.script([Page(rows(1))])

    task.run(secret_job(task))

    texts = [path.read_bytes() for path in task.staging.rglob("*") if path.is_file()]
    assert len(texts) == 2
    assert all(SECRET.encode() not in text for text in texts)


def test_log_lines_of_an_attempt_say_which_it_is(task: UnitTask) -> None:
    seen = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from dil.observe import logs

            seen.append(logs._context.get())

    handler = Listening()
    logging.getLogger("dil.task.work_unit").addHandler(handler)
    try:
        task.script([TransientSourceError("x")], [TransientSourceError("y")])
        task.run(task.job(task__maxretries="1", task__retry__intervalinsec="0"))
    finally:
        logging.getLogger("dil.task.work_unit").removeHandler(handler)

    failed = [(one.job, one.run_id, one.unit, one.attempt) for one in seen if one.attempt]
    assert failed == [("orders", "r1", "s", 1), ("orders", "r1", "s", 2)]
