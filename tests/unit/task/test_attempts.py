"""When a work unit is tried again, how long that waits, and what an attempt starts from."""

from __future__ import annotations

import email.utils
import errno
import re
import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from dil.errors import (
    AuthenticationError,
    CommitConflictError,
    ConfigError,
    ConversionError,
    DilError,
    ExecutionError,
    PluginFailureError,
    Problem,
    QuotaError,
    SourceContractError,
    SourceError,
    TransientSourceError,
    WriteError,
)
from dil.extraction.paging.notes import EMPHASIS, SOURCE_BEHIND
from dil.publishing.staged import read_results
from dil.storage import LocalFilesystem
from tests.unit.task.scripted import NOW, Page, UnitTask, Waits, rows, work_unit

pytestmark = pytest.mark.slow

DOWN = TransientSourceError("the source is down")
GOOD = [Page(rows(1, 2))]


# A source whose clock is behind


@pytest.mark.parametrize(
    ("seconds_before", "age", "changes", "is_noted"),
    [
        (0, "0", {}, False),
        (60, "0", {}, True),
        (60, "90", {}, False),
        (60, "0", {"ms__grace__period": "PT1H"}, False),
        (60, "0", {"ms__parameters": "", "ms__session__key__field": ""}, False),
        (60, "0", {"state__store__enabled": "false"}, False),
        (60, "0", {"ms__publish__mode": "replace"}, False),
    ],
)
def test_a_window_that_ends_after_the_sources_clock_is_noted(
    task: UnitTask, seconds_before: int, age: str, changes: dict[str, str], is_noted: bool
) -> None:
    unit = work_unit()
    date = email.utils.formatdate(unit.high / 1000 - seconds_before, usegmt=True)
    task.script([Page(rows(1), headers={"Date": date, "Age": age})])

    report = task.run(task.job(**changes), unit)

    assert (EMPHASIS + SOURCE_BEHIND in report.notes) is is_noted


def test_a_date_without_zone_is_in_utc(task: UnitTask, east_of_utc: None) -> None:
    unit = work_unit()
    date = time.asctime(time.gmtime(unit.high / 1000))
    task.script([Page(rows(1), headers={"Date": date})])

    assert task.run(task.job(), unit).notes == ()


@pytest.fixture
def east_of_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def test_a_window_that_ends_after_now_says_nothing_about_the_sources_clock(task: UnitTask) -> None:
    unit = msgspec.structs.replace(work_unit(), high=NOW + 3_600_000)
    date = email.utils.formatdate(NOW / 1000, usegmt=True)
    task.script([Page(rows(1), headers={"Date": date})])

    assert task.run(task.job(), unit).notes == ()


# A source that ignores the window


def test_first_rows_are_alike_where_the_source_gives_the_same_rows(task: UnitTask) -> None:
    def first_rows(*pages: list[dict[str, object]]) -> object:
        task.script([Page(each, str(at)) for at, each in enumerate(pages)] + [Page()])
        return task.run().first_rows

    same = first_rows(rows(1, 2))
    assert isinstance(same, int)
    assert first_rows(rows(1, 2), rows(3)) == same
    assert first_rows(rows(1, 3)) != same
    assert first_rows(rows(1, 2, 3)) != same
    assert first_rows(rows(1)) is UNSET
    assert first_rows() is UNSET


def test_files_of_different_names_may_begin_with_the_same_rows(task: UnitTask) -> None:
    found = set()
    for path in ("/days/1.json", "/days/2.json", "/days/2.json?again=1"):
        task.script([Page(rows(1, 2), uri=path)])
        found.add(task.run().first_rows)
    assert len(found) == 2


# How often, and with what waits


def test_the_first_success_ends_the_work_unit(task: UnitTask) -> None:
    task.script(GOOD)

    report = task.run(task.job(task__maxretries="4"))

    assert (report.attempts, report.failure) == (1, None)
    assert task.waits.slept == []


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_a_lasting_failure_is_tried_once_and_then_as_often_as_retries_say(
    task: UnitTask, retries: int
) -> None:
    script = task.script([DOWN])

    report = task.run(task.job(task__maxretries=str(retries)))

    assert report.failure is not None
    assert (report.failure.code, report.attempts) == ("DIL-SRC-TRANSIENT", retries + 1)
    assert len(script.sessions) == retries + 1
    assert len(task.waits.slept) == retries


def test_a_given_interval_makes_waits_that_grow_by_it(task: UnitTask) -> None:
    task.script([DOWN])

    task.run(task.job(task__maxretries="4", task__retry__intervalinsec="300"))

    # rule P36: (k - 1) times the interval.
    assert task.waits.slept == [0, 300, 600, 900]


def test_no_interval_means_no_waits(task: UnitTask) -> None:
    task.script([DOWN])

    task.run(task.job(task__maxretries="3", task__retry__intervalinsec="0"))

    assert task.waits.slept == [0, 0, 0]


@settings(max_examples=20, deadline=None)
@given(chance=st.floats(0, 1, exclude_max=True))
def test_without_an_interval_waits_are_between_a_second_and_a_minute(
    tmp_path_factory: pytest.TempPathFactory, chance: float
) -> None:
    task = UnitTask(tmp_path_factory.mktemp("task"))
    task.waits = Waits(chance=chance)
    task.script([DOWN])

    task.run(task.job(task__maxretries="9"))

    assert all(1 <= seconds <= 60 for seconds in task.waits.slept)
    assert task.waits.slept == sorted(task.waits.slept)
    assert len(task.waits.slept) == 9


def test_waits_of_different_work_units_are_spread_by_chance(task: UnitTask) -> None:
    job = task.job(task__maxretries="5")
    task.script([DOWN])
    waits = []
    for chance in (0.1, 0.9):
        task.waits = Waits(chance=chance)
        task.run(job)
        waits.append(task.waits.slept[-1])

    assert waits[0] < waits[1]


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("refused"),
        QuotaError("spent"),
        ConfigError([Problem(None, "ms.x", "is wrong")]),
        ConversionError("row 3"),
        ExecutionError("gone"),
    ],
)
def test_what_a_retry_cannot_heal_is_not_tried_again(task: UnitTask, error: DilError) -> None:
    script = task.script([error])

    report = task.run(task.job(task__maxretries="4"))

    assert report.failure is not None
    assert (report.failure.code, report.failure.retryable) == (error.code, False)
    assert (report.attempts, len(script.sessions), task.waits.slept) == (1, 1, [])


@pytest.mark.parametrize(
    "error",
    [
        TransientSourceError("503"),
        SourceError("404"),
        SourceContractError("half a page"),
        WriteError("full"),
        CommitConflictError("again"),
        RuntimeError("oh"),
    ],
)
def test_what_may_pass_is_tried_again(task: UnitTask, error: Exception) -> None:
    task.script([error], GOOD)

    report = task.run(task.job(task__maxretries="1"))

    assert report.failure is None
    assert report.attempts == 2


@pytest.mark.parametrize("error", [KeyError("items"), TypeError("no text"), AttributeError("x")])
def test_a_mistake_in_a_plug_in_is_met_once_and_names_its_line(
    task: UnitTask, error: Exception
) -> None:
    script = task.script([error])

    report = task.run(task.job(task__maxretries="4"))

    assert report.failure is not None
    assert (report.failure.code, len(script.sessions)) == ("DIL-PLUGIN", 1)
    assert re.search(r"scripted[.]py:[0-9]+, in fetch", report.failure.error)


def test_an_answer_that_breaks_the_contract_in_the_same_way_is_asked_for_twice(
    task: UnitTask,
) -> None:
    script = task.script([SourceContractError("no JSON")])

    report = task.run(task.job(task__maxretries="4"))

    assert report.failure is not None
    assert (report.attempts, len(script.sessions)) == (2, 2)


def test_the_last_failure_is_the_one_reported(task: UnitTask) -> None:
    task.script([DOWN], [SourceError("the second")])

    report = task.run(task.job(task__maxretries="1"))

    assert report.failure is not None
    assert (report.failure.code, report.failure.error) == ("DIL-SRC", "the second")


def test_a_signal_is_no_failure_of_the_work_unit(task: UnitTask) -> None:
    task.script([KeyboardInterrupt()])

    with pytest.raises(KeyboardInterrupt):
        task.run(task.job(task__maxretries="4"))


# What an attempt starts from


def test_every_attempt_starts_at_the_first_page_with_a_session_of_its_own(task: UnitTask) -> None:
    pages = [Page(rows(1), "c1"), Page(rows(2), "c2"), Page(rows(3))]
    script = task.script([pages[0], pages[1], DOWN], pages)

    report = task.run(task.job(task__maxretries="1"))

    first, second = script.sessions
    assert first is not second
    assert [values.page for values in second.asked] == [0, 1, 2]
    assert "cursor" not in second.asked[0].parameters
    assert second.asked[1].parameters["cursor"] == "c1"
    assert report.rows == 3


def test_the_rows_of_a_failed_attempt_do_not_count(task: UnitTask) -> None:
    task.script([Page(rows(1, 2), "c1"), DOWN], [Page(rows(1, 2), "c1"), Page(rows(3))])

    report = task.run(task.job(task__maxretries="1"))

    assert report.rows == 3
    assert report.counters.rows_read == 3
    # What was asked of the source was asked.
    assert report.counters.requests == 4


def test_an_inferred_schema_is_forgotten_between_attempts(task: UnitTask) -> None:
    task.script(
        [Page([{"id": 1, "old": "x"}], "c1"), DOWN],
        [Page([{"id": 1, "new": 2}])],
    )

    report = task.run(task.job(task__maxretries="1", ms__output__schema=""))

    assert report.schema.splitlines() == ["id: int32", "new: int32"]


def test_every_session_is_closed_once(task: UnitTask) -> None:
    script = task.script([DOWN], [Page([{"id": "no number"}])], GOOD)

    task.run(task.job(task__maxretries="2"))

    assert [session.closed for session in script.sessions] == [1, 1]


def test_a_failed_attempt_leaves_nothing_behind(task: UnitTask) -> None:
    task.script([Page(rows(1, 2), "c1"), DOWN])

    task.run(task.job(task__maxretries="2"))

    assert not any("-" in name for name in task.left()), task.left()


def test_a_success_after_failures_leaves_one_attempt(task: UnitTask) -> None:
    task.script([Page(rows(1), "c1"), DOWN], GOOD)

    task.run(task.job(task__maxretries="1"))

    unit = work_unit().hash
    (attempt,) = [name for name in task.left() if name.count("/") == 1]
    assert attempt.startswith(f"{unit}/2-")
    assert [name for name in task.left() if name.count("/") == 2] == [
        f"{attempt}/part-0.parquet",
        f"{attempt}/result.json",
    ]
    (result,) = read_results(LocalFilesystem(), str(task.staging))
    assert result.report.attempts == 2


# Pacing


def test_a_work_unit_is_held_back_until_its_start(task: UnitTask) -> None:
    task.script(GOOD)

    report = task.run(unit=work_unit(not_before=NOW + 7_500))

    assert task.waits.slept == [7.5]
    assert report.counters.seconds_waited == 7.5


@pytest.mark.parametrize("not_before", [0, NOW - 1, NOW])
def test_a_start_that_has_come_holds_nothing_back(task: UnitTask, not_before: int) -> None:
    task.script(GOOD)

    report = task.run(unit=work_unit(not_before=not_before))

    assert task.waits.slept == []
    assert report.counters.seconds_waited == 0


def test_the_waits_before_retries_count_as_waited(task: UnitTask) -> None:
    task.script([DOWN], [DOWN], [DOWN], GOOD)

    report = task.run(
        task.job(task__maxretries="3", task__retry__intervalinsec="10"),
        work_unit(not_before=NOW + 5_000),
    )

    assert task.waits.slept == [5, 0, 10, 20]
    assert report.counters.seconds_waited == 35


def test_a_call_interval_counts_as_waited(task: UnitTask) -> None:
    task.script([Page(rows(1), "c1"), Page(rows(2), "c2"), Page(rows(3))])

    report = task.run(task.job(ms__call__interval__millis="2000"))

    assert sum(task.waits.slept) == 4
    assert report.counters.seconds_waited == 4


# Too much for the memory


def _renamed() -> Exception:
    error = PluginFailureError("converter x failed: MemoryError")
    error.__cause__ = MemoryError()
    return error


@pytest.mark.parametrize(
    "error", [MemoryError(), _renamed(), OSError(errno.ENOMEM, "Cannot allocate memory")]
)
def test_what_needs_more_memory_than_there_is_breaks_the_contract_and_is_not_tried_again(
    task: UnitTask, error: Exception
) -> None:
    script = task.script([Page(rows(1), cursor="more"), error])

    report = task.run(task.job(task__maxretries="4"))

    assert report.failure is not None
    assert (report.failure.code, report.attempts) == ("DIL-SRC-CONTRACT", 1)
    assert "ms.task.memory.max.bytes" in report.failure.fix
    assert len(script.sessions) == 1
