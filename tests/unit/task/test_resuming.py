"""An attempt goes on where an earlier one stopped: nothing is read twice, nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from dil.errors import (
    AuthenticationError,
    ConversionError,
    SourceContractError,
    SourceError,
    TransientSourceError,
    WriteError,
)
from dil.model.job import Job
from dil.model.task import RunContext, TaskReport
from dil.publishing.page_log import page_logs, read_log
from dil.publishing.staged import read_results
from dil.spi.converter import Converter, PageFacts
from dil.spi.rejects import RejectedRow
from dil.storage import LocalFilesystem
from dil.task.checkpoints import NOT_KEPT, OUTDATED, RESUMED, STARTED_OVER, WINDOW_CHANGED
from dil.task.work_unit import run_work_unit
from tests.unit.task.paged_source import SOURCES, Pages
from tests.unit.task.scripted import NOW, UnitTask, rows, work_unit

pytestmark = pytest.mark.slow

DOWN = TransientSourceError("the source is down")
FILES = LocalFilesystem()


@pytest.fixture
def bench(tmp_path: Path):
    yield Bench(tmp_path)
    SOURCES.clear()


class Bench(UnitTask):
    """A job with progress kept after every page, and runs that follow each other."""

    def job(self, **changes: str) -> Job:
        return super().job(
            **{
                "ms__state__cursor__commit": "page",
                "ms__state__cursor__commit__seconds": "0",
                **changes,
            }
        )

    def source(self, pages: int, faults: dict[int, BaseException] | None = None) -> Pages:
        made = Pages([rows(2 * n, 2 * n + 1) for n in range(pages)], dict(faults or {}))
        SOURCES[self.folder.name] = made
        return made

    def cursors(self, kind: str = "CursorConnector", **changes: str) -> Job:
        return self._of(kind, **changes)

    def offsets(self, **changes: str) -> Job:
        parameters = [{"name": "o", "type": "pagestart"}, {"name": "n", "type": "pagesize"}]
        return self._of(
            "OffsetConnector",
            ms__parameters=json.dumps(parameters),
            ms__session__key__field="",
            ms__pagination=json.dumps({"initialvalues": [0, 2]}),
            **changes,
        )

    def _of(self, kind: str, **changes: str) -> Job:
        job = self.job(**changes)
        reference = replace(
            job.source.connector, module="tests.unit.task.paged_source", qualname=kind
        )
        return replace(job, source=replace(job.source, connector=reference))

    def go(self, job: Job, run_id: str = "r1", **members: object) -> TaskReport:
        unit = members.pop("unit", work_unit())
        context = RunContext(job, run_id, NOW, full_extract=True, staging_dir=self.staged(run_id))
        return run_work_unit(replace(context, **members), unit, self.waits.clocks)

    def staged(self, run_id: str = "r1") -> str:
        return str(self.staging.parent / run_id)

    def logs(self, run_id: str = "r1") -> dict[str, str]:
        logs = page_logs(FILES, self.staged(run_id))
        return {signature: log.folder for signature, log in logs.items()}


class WithoutFour(Converter):
    """Puts the row with the id 4 aside."""

    dropped = 0

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        found = [row for row, number in enumerate(batch["id"].to_pylist()) if number == 4]
        self.context.rejects.add(batch, [RejectedRow(row, "id", "is 4") for row in found])
        self.dropped += len(found)
        yield batch.filter(pc.not_equal(batch["id"], 4))


def ids(report: TaskReport) -> list[int]:
    return [
        number for file in report.files for number in pq.read_table(file.path)["id"].to_pylist()
    ]


# Within a run


def test_the_next_attempt_asks_for_the_page_that_failed(bench: Bench) -> None:
    source = bench.source(5, {4: DOWN})

    report = bench.go(bench.cursors(task__maxretries="1"))

    assert source.asked == [0, 1, 2, 3, 3, 4]
    assert ids(report) == list(range(10))
    assert (report.attempts, report.rows, report.counters.rows_read) == (2, 10, 10)
    assert report.counters.rows_written == 10
    assert report.notes == (RESUMED,)


def test_without_page_commit_every_attempt_starts_at_the_first_page(bench: Bench) -> None:
    source = bench.source(3, {3: DOWN})

    report = bench.go(bench.cursors(task__maxretries="1", ms__state__cursor__commit="unit"))

    assert source.asked == [0, 1, 2, 0, 1, 2]
    assert ids(report) == list(range(6))


def test_a_page_that_breaks_off_in_its_middle_is_read_again_as_a_whole(bench: Bench) -> None:
    source = bench.source(5, {3: DOWN})

    report = bench.go(bench.offsets(task__maxretries="1"))

    assert source.asked == [0, 1, 2, 2, 3, 4, 5]
    assert ids(report) == list(range(10))


def test_complete_pages_are_kept_even_when_no_saving_was_due(bench: Bench) -> None:
    # The clock of these tests stands still while pages are read.
    source = bench.source(5, {4: DOWN})
    job = bench.offsets(task__maxretries="1", ms__state__cursor__commit__seconds="3600")

    report = bench.go(job)

    assert source.asked == [0, 1, 2, 3, 3, 4, 5]
    assert ids(report) == list(range(10))


def test_many_failures_one_after_the_other_cost_one_request_each(bench: Bench) -> None:
    source = bench.source(9, {2: DOWN, 5: DOWN, 6: DOWN, 9: DOWN})

    report = bench.go(bench.cursors(task__maxretries="4"))

    assert source.asked == [0, 1, 1, 2, 3, 3, 3, 4, 5, 5, 6, 7, 8]
    assert ids(report) == list(range(18))


def test_the_files_of_many_pages_end_as_one_file(bench: Bench) -> None:
    bench.source(20, {11: DOWN})

    report = bench.go(bench.cursors(task__maxretries="1"))

    (file,) = report.files
    folder = Path(file.path).parent
    assert [path.name for path in folder.glob("part-*")] == [Path(file.path).name]
    assert ids(report) == list(range(40))
    (result,) = read_results(FILES, bench.staged())
    assert result.report.files == report.files


def test_all_files_have_one_schema_though_it_widened_before_and_after_the_failure(
    bench: Bench,
) -> None:
    source = bench.source(4, {3: DOWN})
    source.rows = [[{"id": 1}], [{"id": 2, "a": 1}], [{"id": 3}], [{"id": 2**40, "a": "x"}]]

    report = bench.go(bench.cursors(task__maxretries="1", ms__output__schema=""))

    assert source.asked == [0, 1, 2, 2, 3]
    assert report.schema.splitlines() == ["id: int64", "a: string"]
    found = [row for file in report.files for row in pq.read_table(file.path).to_pylist()]
    assert found == [
        {"id": 1, "a": None},
        {"id": 2, "a": "1"},
        {"id": 3, "a": None},
        {"id": 2**40, "a": "x"},
    ]


@pytest.mark.parametrize("output_format", ["AVRO", "PARQUET", "ORC", "JSON", "CSV"])
def test_every_format_goes_on(bench: Bench, output_format: str) -> None:
    source = bench.source(6, {2: DOWN, 5: DOWN})

    report = bench.go(bench.offsets(task__maxretries="2", writer__output__format=output_format))

    assert source.asked == [0, 1, 1, 2, 3, 3, 4, 5, 6]
    assert report.failure is None
    assert report.rows == 12


def test_what_the_paging_rules_refuse_is_read_again_from_the_first_page(bench: Bench) -> None:
    source = bench.source(3)
    source.rows = [rows(1), rows(2), []]
    job = bench.cursors(task__maxretries="1", ms__work__unit__min__records="5")

    report = bench.go(job)

    assert report.failure is not None
    assert source.asked == [0, 1, 2, 0, 1, 2]
    assert bench.logs() == {}


@pytest.mark.parametrize(
    ("leads", "asked"), [({2: 0}, [0, 1, 2, 0]), ({1: 1}, [0, 1])], ids=["a circle", "no step"]
)
def test_a_source_that_leads_in_circles_is_read_again_from_the_first_page(
    bench: Bench, leads: dict[int, int], asked: list[int]
) -> None:
    """A later attempt that went on in the circle would not notice it before it came round."""
    source = bench.source(3)
    source.leads = leads

    report = bench.go(bench.cursors(task__maxretries="1"))

    assert report.failure is not None
    assert report.failure.code == SourceContractError.code
    assert source.asked == [*asked, *asked]
    assert bench.logs() == {}


def test_a_row_that_cannot_be_converted_leaves_the_pages_before_it(bench: Bench) -> None:
    source = bench.source(4)
    source.rows[2] = [{"id": "no number"}]

    report = bench.go(bench.cursors())

    assert report.failure is not None
    assert report.failure.code == ConversionError.code
    log = read_log(FILES, bench.logs()["s"])
    assert log is not None
    assert (log.last.pages, sum(file.rows for file in log.files)) == (2, 4)


def test_pages_are_read_again_from_the_first_row_that_was_put_aside(bench: Bench) -> None:
    """The rows put aside are in files of the attempt, which a later attempt does not take over."""
    source = bench.source(5, {5: DOWN})

    report = bench.go(
        bench.cursors(task__maxretries="1", converter__classes=f"{__name__}:WithoutFour")
    )

    assert source.asked == [0, 1, 2, 3, 4, 2, 3, 4]
    assert ids(report) == [0, 1, 2, 3, *range(5, 10)]
    assert (sum(each.rows for each in report.quarantined), report.counters.rows_dropped) == (1, 1)


def test_a_signal_leaves_the_complete_pages(bench: Bench) -> None:
    bench.source(4, {3: KeyboardInterrupt()})

    with pytest.raises(KeyboardInterrupt):
        bench.go(bench.cursors(ms__state__cursor__commit__seconds="3600"))

    log = read_log(FILES, bench.logs()["s"])
    assert log is not None
    assert log.last.pages == 2


def test_a_disk_that_is_full_for_a_while_loses_nothing(bench: Bench, monkeypatch) -> None:
    source = bench.source(6)
    put, times = LocalFilesystem.put, []

    def full_once(self, path, data):
        times.append(path)
        if len(times) == 3:
            raise WriteError("no space left on device")
        put(self, path, data)

    monkeypatch.setattr(LocalFilesystem, "put", full_once)

    report = bench.go(bench.cursors(task__maxretries="1"))

    assert ids(report) == list(range(12))
    assert source.asked == [0, 1, 2, 3, 4, 5]


# From run to run


def test_a_later_run_goes_on_where_an_earlier_one_failed(bench: Bench) -> None:
    source, job = bench.source(6, {4: DOWN}), bench.cursors()
    assert bench.go(job).failure is not None

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 3, 3, 4, 5]
    assert ids(report) == list(range(12))
    assert all(f"/{bench.staged('r2')}" in f"/{file.path}" for file in report.files)


def test_what_a_later_run_goes_on_from_may_be_deleted_behind_it(bench: Bench) -> None:
    source, job = bench.source(6, {3: DOWN, 5: DOWN}), bench.cursors()
    bench.go(job)
    bench.go(job, "r2", resume_from=bench.logs())
    FILES.delete_tree(bench.staged())

    report = bench.go(job, "r3", resume_from=bench.logs("r2"))

    assert source.asked == [0, 1, 2, 2, 3, 3, 4, 5]
    assert ids(report) == list(range(12))


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"unit": structs.replace(work_unit(), low=work_unit().low + 1)}, WINDOW_CHANGED),
        ({"unit": structs.replace(work_unit(), high=work_unit().high + 1)}, WINDOW_CHANGED),
        ({"unit": structs.replace(work_unit(), last_high=work_unit().low + 5)}, OUTDATED),
    ],
)
def test_another_work_unit_does_not_go_on_from_it_and_says_so(
    bench: Bench, change, note: str
) -> None:
    source, job = bench.source(3, {3: DOWN}), bench.cursors()
    bench.go(job)

    report = bench.go(job, "r2", resume_from=bench.logs(), **change)

    assert source.asked == [0, 1, 2, 0, 1, 2]
    assert report.notes == (note,)


@pytest.mark.parametrize(
    ("connector", "asked", "note"),
    [
        ("WindowlessConnector", [0, 1, 2, 2], RESUMED),
        ("WindowlessChildConnector", [0, 1, 2, 0, 1, 2], WINDOW_CHANGED),
    ],
)
def test_another_window_goes_on_only_where_the_connector_itself_declares_that_it_reads_none(
    bench: Bench, connector: str, asked: list[int], note: str
) -> None:
    parameters = json.dumps([{"name": "cursor", "type": "session"}])
    source = bench.source(3, {3: DOWN})
    job = bench.cursors(connector, ms__parameters=parameters)
    bench.go(job)

    later = structs.replace(work_unit(), high=work_unit().high + 1)
    report = bench.go(job, "r2", resume_from=bench.logs(), unit=later)

    assert source.asked == asked
    assert report.notes == (note,)


@pytest.mark.parametrize(
    "change", [{"extract__table__name": "more"}, {"ms__publish__mode": "replace"}]
)
def test_another_configuration_does_not_go_on_from_it(bench: Bench, change) -> None:
    source = bench.source(3, {3: DOWN})
    bench.go(bench.cursors())

    bench.go(bench.cursors(**change), "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 0, 1, 2]


def test_a_snapshot_is_of_one_run(bench: Bench) -> None:
    source, job = bench.source(3, {3: DOWN}), bench.cursors(ms__publish__mode="replace")
    bench.go(job)

    bench.go(job, "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 0, 1, 2]


def test_a_full_run_is_another_one_only_where_it_asks_for_something_else(bench: Bench) -> None:
    both = json.dumps(
        [{"name": "cursor", "type": "session"}, {"name": "since", "value": ["all", "new"]}]
    )
    for parameters, asked in (("", [0, 1, 2, 2]), (both, [0, 1, 2, 0, 1, 2])):
        source = bench.source(3, {3: DOWN})
        job = bench.cursors(**({"ms__parameters": parameters} if parameters else {}))
        bench.go(job, f"a{len(asked)}")

        logs = bench.logs(f"a{len(asked)}")
        bench.go(job, f"b{len(asked)}", resume_from=logs, full_extract=False)

        assert source.asked == asked


def damaged(folder: str, name: str, data: bytes | None) -> None:
    path = next(Path(folder).glob(name))
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


@pytest.mark.parametrize("data", [None, b"", b"PAR1"])
def test_a_log_ends_before_a_file_that_is_not_whole(bench: Bench, data: bytes | None) -> None:
    source, job = bench.source(4, {4: DOWN}), bench.cursors()
    bench.go(job)
    damaged(bench.logs()["s"], "part-1.parquet", data)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 3, 1, 2, 3]
    assert ids(report) == list(range(8))


@pytest.mark.parametrize("data", [None, b"", b'{"owner":', b"{}"])
def test_a_log_ends_before_a_checkpoint_that_is_damaged(bench: Bench, data: bytes | None) -> None:
    source, job = bench.source(4, {4: DOWN}), bench.cursors()
    bench.go(job)
    damaged(bench.logs()["s"], "page-00000002.json", data)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 3, 2, 3]
    assert ids(report) == list(range(8))


def test_a_file_with_a_flipped_byte_is_not_gone_on_from(bench: Bench) -> None:
    source, job = bench.source(4, {4: DOWN}), bench.cursors()
    bench.go(job)
    path = Path(bench.logs()["s"]) / "part-1.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 3, 0, 1, 2, 3]
    assert ids(report) == list(range(8))


# A source that does not go on


@pytest.mark.parametrize("refusal", [SourceError("410"), SourceContractError("an error page")])
def test_a_cursor_that_is_refused_later_lets_the_work_unit_start_over_once(
    bench: Bench, refusal: SourceError
) -> None:
    source, job = bench.source(4, {3: DOWN, 4: refusal}), bench.cursors()
    bench.go(job)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 2, 0, 1, 2, 3]
    assert ids(report) == list(range(8))
    assert report.attempts == 1
    assert report.notes == (STARTED_OVER,)


def test_a_cursor_that_is_refused_within_a_run_lets_it_start_over_too(bench: Bench) -> None:
    source = bench.source(4, {3: DOWN, 4: SourceError("410")})

    report = bench.go(bench.cursors(task__maxretries="1"))

    assert source.asked == [0, 1, 2, 2, 0, 1, 2, 3]
    assert ids(report) == list(range(8))


@pytest.mark.parametrize("stopped", ["this execution", "a lost execution", "an earlier run"])
def test_after_starting_over_an_attempt_goes_on_from_the_new_pages(
    bench: Bench, stopped: str
) -> None:
    """Not from the cursor that was refused, though its log has more pages."""
    source = bench.source(4, {3: DOWN, 4: SourceError("410"), 6: DOWN})
    logs = {}
    if stopped == "an earlier run":
        bench.go(bench.cursors())
        logs = bench.logs()
    elif stopped == "a lost execution":  # and another one that read as far at the same time
        bench.go(bench.cursors(), "r2")
        folder = Path(bench.logs("r2")["s"])
        shutil.copytree(folder, folder.with_name("1-twin"))

    report = bench.go(bench.cursors(task__maxretries="2"), "r2", resume_from=logs)

    assert source.asked == [0, 1, 2, 2, 0, 1, 1, 2, 3]
    assert ids(report) == list(range(8))


def test_what_fails_after_starting_over_is_a_plain_failure(bench: Bench) -> None:
    refusals = {4: SourceError("410"), 5: SourceError("410")}
    source, job = bench.source(4, {3: DOWN, **refusals}), bench.cursors()
    bench.go(job)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert report.failure is not None
    assert source.asked == [0, 1, 2, 2, 0]


def test_a_page_that_is_refused_after_the_cursor_was_accepted_is_a_plain_failure(
    bench: Bench,
) -> None:
    source, job = bench.source(5, {3: DOWN, 5: SourceError("410")}), bench.cursors()
    bench.go(job)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert report.failure is not None
    assert source.asked == [0, 1, 2, 2, 3]


def test_an_address_that_expired_lets_the_work_unit_start_over(bench: Bench) -> None:
    source = bench.source(4, {3: DOWN, 4: AuthenticationError("403: request has expired")})
    job = bench.cursors(ms__session__key__field="{}", ms__pagination='{"next": "next"}')
    bench.go(job)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert source.asked == [0, 1, 2, 2, 0, 1, 2, 3]
    assert ids(report) == list(range(8))
    assert report.notes == (STARTED_OVER,)


@pytest.mark.parametrize("error", [DOWN, AuthenticationError("401")])
def test_what_says_nothing_of_the_cursor_does_not_start_over(bench: Bench, error) -> None:
    source, job = bench.source(4, {3: DOWN, 4: error}), bench.cursors()
    bench.go(job)

    report = bench.go(job, "r2", resume_from=bench.logs())

    assert report.failure is not None
    assert source.asked == [0, 1, 2, 2]
    assert set(bench.logs("r2")) == {"s"}


# Secrets


def test_a_cursor_that_holds_a_secret_is_never_written_down(bench: Bench) -> None:
    source = bench.source(4, {3: DOWN})
    secret = '"session":"c-'  # as the cursors of this source are written into a checkpoint
    job = bench.cursors(source__conn__username="u", source__conn__password=secret)

    failed = bench.go(job)

    assert failed.notes == (NOT_KEPT,)
    assert bench.logs() == {}
    bench.go(job, "r2", resume_from=bench.logs())
    assert source.asked == [0, 1, 2, 0, 1, 2, 3]


# Always


@settings(max_examples=60, deadline=None)
@given(
    pages=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    faults=st.sets(st.integers(1, 20), max_size=6),
    seconds=st.sampled_from(["0", "3600"]),
    kind=st.sampled_from(["cursors", "offsets"]),
    retries=st.integers(0, 2),
)
def test_whatever_fails_when_rows_come_once_and_complete_pages_are_read_once(
    tmp_path_factory, pages, faults, seconds, kind, retries
) -> None:
    bench = Bench(tmp_path_factory.mktemp("bench"))
    numbers = iter(range(1000))
    source = bench.source(0, dict.fromkeys(faults, DOWN))
    sizes = [2] * len(pages) if kind == "offsets" else [max(1, size) for size in pages]
    source.rows = [rows(*(next(numbers) for _ in range(size))) for size in sizes]
    job = getattr(bench, kind)(
        task__maxretries=str(retries), ms__state__cursor__commit__seconds=seconds
    )
    resume_from: dict[str, str] = {}
    for run in range(12):
        report = bench.go(job, f"r{run}", resume_from=resume_from)
        resume_from = bench.logs(f"r{run}") or resume_from
        if report.failure is None:
            break

    assert report.failure is None
    assert ids(report) == list(range(sum(sizes)))
    struck = len(faults) - len(source.faults)
    last = len(sizes) - 1 if kind == "cursors" else len(sizes)
    assert len(source.asked) == last + 1 + struck
    assert source.asked == sorted(source.asked)
