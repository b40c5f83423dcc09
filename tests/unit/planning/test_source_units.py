"""Units that the source names are read once each: files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.model.history import Coverage, UnitRecord
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec
from dil.model.work_unit import Reason
from dil.planning import BareHistory, plan

START = 1546300800000  # 2019-01-01T00:00Z
SPEC = PlanningSpec(units=None, of_source=True, once="version", limit=None, zone="UTC")
FILES = [f'{{"file":"/in/{name}.csv"}}' for name in "abcde"]


def signature(file: str) -> str:
    return f"[watermark.datetime.{START}, watermark.activation.{file}]"


def files(spec: PlanningSpec, now: int, history: dict[str, int | UnitRecord]) -> list[str]:
    made = plan(spec, now_ms=now, history=BareHistory(history), activation=FILES)
    return [unit.unit_json for unit in made.work_units]


@given(
    read=st.sets(st.sampled_from(FILES)),
    days=st.integers(1, 5000),
    later=st.integers(0, 5000),
    spec=st.builds(
        replace,
        st.just(SPEC),
        grace_ms=st.sampled_from([0, DAY_MS]),
        abstinent_ms=st.sampled_from([0, 30 * DAY_MS]),
    ),
)
def test_what_was_read_is_never_due_again_and_all_else_is(read, days, later, spec):
    history: dict[str, int | UnitRecord] = {signature(file): START + days * DAY_MS for file in read}
    due = files(spec, START + (days + later) * DAY_MS, history)
    assert due == [file for file in FILES if file not in read]


@pytest.mark.parametrize("high", [None, START, START + DAY_MS])
def test_a_file_whose_reading_failed_is_read_again_whole(high):
    record = UnitRecord(signature(FILES[0]), START, high, failed=True, attempts=3)
    done = {signature(file): START + DAY_MS for file in FILES[1:]}
    made = plan(
        SPEC,
        now_ms=START + 9 * DAY_MS,
        history=BareHistory({record.signature: record, **done}),
        activation=FILES,
    )
    (unit,) = made.work_units
    assert (unit.unit_json, unit.reason, unit.low) == (FILES[0], Reason.RETRY, START)
    assert made.skipped == len(FILES) - 1


def test_what_is_not_due_is_explained():
    made = plan(
        SPEC,
        now_ms=START + 9 * DAY_MS,
        history=BareHistory({signature(FILES[0]): START + DAY_MS}),
        activation=FILES,
        explain=True,
    )
    assert made.skips is not None
    assert [(skip.why, skip.cutoff) for skip in made.skips] == [("it was read", None)]


class Covered:
    """A state store's history that knows coverage rows and nothing else."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage

    def has_succeeded(self) -> bool:
        return True

    def coverage(self, unit_key: str) -> Coverage:
        return self._coverage

    def records(self, unit_key: str, low: int, high: int) -> dict[str, UnitRecord]:
        raise AssertionError("a file that was read needs no look-up of its own")

    open_records = records


def test_a_file_that_was_read_costs_one_look_up():
    history = Covered(Coverage(START, START + DAY_MS, START + DAY_MS, 0))
    made = plan(SPEC, now_ms=START + 9 * DAY_MS, history=history, activation=FILES)
    assert (made.work_units, made.skipped) == ((), len(FILES))


def test_a_file_that_was_read_and_failed_since_is_due_again():
    class Failed(Covered):
        """The records behind a coverage row that covers each file."""

        def records(self, unit_key: str, low: int, high: int) -> dict[str, UnitRecord]:
            of = f"[watermark.datetime.{START}, watermark.{unit_key}]"
            failed = FILES[0] in unit_key
            return {of: UnitRecord(of, START, START + DAY_MS, failed=failed)}

        def open_records(self, unit_key: str) -> dict[str, UnitRecord]:
            return self.records(unit_key, START, START + 1)

    history = Failed(Coverage(START, START + DAY_MS, START + DAY_MS, 1))
    made = plan(SPEC, now_ms=START + 9 * DAY_MS, history=history, activation=FILES)
    assert [unit.unit_json for unit in made.work_units] == FILES[:1]
