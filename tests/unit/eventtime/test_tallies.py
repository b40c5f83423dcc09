"""Tallies of work units, put together in the order of the plan, move the watermark as rows do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.api import event_watermark
from dil.config import event_time_spec
from dil.errors import StateError
from dil.eventtime import EventWatermark
from dil.eventtime.tally import (
    StreamTally,
    decode_tallies,
    encode_tallies,
    merge,
    tallies_of,
)
from dil.model.event_tally import EventContext, EventTally
from dil.model.interval import Interval
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.rejects import NoRejects
from dil.task.event_time import EventRows
from tests.unit.eventtime.test_equals_reference import (
    EPOCH,
    NAMES,
    SETTINGS,
    START,
    TIMES,
    properties,
)

UNIT = WorkUnit("[u]", 0, 1, Interval(0, 1), "u", "{}", Reason.NEW)
ROWS = st.lists(
    st.tuples(TIMES.filter(lambda time: time is None or time < 2**63), NAMES), max_size=12
)
# A run is work units, which are batches, which are rows.
RUNS = st.lists(
    st.tuples(st.lists(st.lists(ROWS, max_size=3), max_size=4), st.integers(0, 400)), max_size=5
)


@pytest.fixture(autouse=True, scope="module")
def rows_at_once() -> Iterator[None]:
    """Let rows wait for few others, so that some batches are tallied before the last one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dil.task.event_time._ROWS_AT_ONCE", 7)
        yield


def columns(rows: list[tuple[int | None, str]]) -> tuple[pa.Int64Array, pa.StringArray]:
    return pa.array([time for time, _ in rows], pa.int64()), pa.array(
        [n for _, n in rows], pa.string()
    )


def judged(
    written: dict[str, str], effective: int | None, now_ms: int, batches: list[list]
) -> tuple[EventTally, list[bool]]:
    spec = event_time_spec({"ms.event.column": "at", **written, "ms.late.action": "flag"})
    rows = EventRows(spec, EventContext(effective), UNIT, now_ms, NoRejects())
    given_batches = [
        pa.RecordBatch.from_arrays(list(columns(batch)), names=["at", "name"]) for batch in batches
    ]
    found = [flag for each in rows.judged(given_batches) for flag in each["_late"].to_pylist()]
    return rows.tally(), found


@settings(max_examples=150, deadline=None)
@given(RUNS, SETTINGS)
def test_tallies_of_units_move_the_watermark_as_one_commit_of_their_rows(runs, asked):
    written = properties(asked)
    written["ms.event.partition.column"] = "name"
    whole, state, now = event_watermark(written), None, EPOCH + timedelta(milliseconds=START)
    spec = event_time_spec(written)
    for units, step in runs:
        now += timedelta(milliseconds=step)
        now_ms = (now - EPOCH) // timedelta(milliseconds=1)
        taken = EventWatermark(spec, state=state)
        found = [judged(written, taken.effective, now_ms, batches) for batches in units]
        rows = [row for batches in units for batch in batches for row in batch]
        expected = whole.commit(*columns(rows), now=now)

        total: dict[str, StreamTally] = {}
        for tally, _ in found:
            merge(total, decode_tallies(tally.streams), spec.adaptive.window)
        taken.take(total, now_ms)
        state = taken.state()

        assert state == whole.state()
        refused = set(expected.quarantined)
        kept = [late for row, late in enumerate(expected.late) if row not in refused]
        assert [flag for _, flags in found for flag in flags] == kept
        assert sum(tally.late for tally, _ in found) == sum(kept)
        assert sum(tally.refused for tally, _ in found) == len(refused)


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(-50, 50), min_size=1), min_size=1, max_size=6), st.integers(1, 9)
)
def test_merging_is_associative_and_forgets_nothing_that_counts(pieces, window):
    spec = event_time_spec(
        {"ms.event.watermark": "adaptive", "ms.event.adaptive": f'{{"window": {window}}}'}
    )

    def one(times: list[int]) -> dict[str, StreamTally]:
        return tallies_of(pa.array(times, pa.int64()), None, spec)

    whole = one([time for piece in pieces for time in piece])
    forward: dict[str, StreamTally] = {}
    for piece in pieces:
        merge(forward, one(piece), window)
    assert shown(forward) == shown(whole)
    backward: dict[str, StreamTally] = {}
    for piece in reversed(pieces):
        later, backward = backward, one(piece)
        merge(backward, later, window)
    assert shown(backward) == shown(whole)
    assert shown(decode_tallies(encode_tallies(whole))) == shown(whole)


def shown(tallies: dict[str, StreamTally]) -> dict[str, object]:
    return {
        name: (each.rows, each.largest, each.before, each.last.to_pylist())
        for name, each in tallies.items()
    }


def test_what_is_kept_of_many_rows_is_bounded():
    spec = event_time_spec({"ms.event.watermark": "adaptive"})
    found: dict[str, StreamTally] = {}
    for start in range(0, 200_000, 20_000):
        merge(
            found, tallies_of(pa.array(range(start, start + 20_000), pa.int64()), None, spec), 5000
        )
    assert found[""].rows == 200_000
    assert found[""].last.get_total_buffer_size() <= 5000 * 8 + 64
    assert len(encode_tallies(found)) < 30_000


def test_damaged_tallies_are_an_error_with_what_to_do():
    with pytest.raises(StateError) as caught:
        decode_tallies(b"nonsense")
    assert caught.value.fix


def test_no_flipped_bit_of_a_tally_is_more_than_an_error():
    """Arrow does not check what it reads: a list that ended behind its values ended the process."""
    last = pa.array([3, 1, 9], pa.int64())
    stored = encode_tallies({"a": StreamTally(5, 9, 4, last), "b": StreamTally(1, 7)})
    for bit in range(0, 8 * len(stored), 7):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(StateError):
            merge({}, decode_tallies(bytes(damaged)), 2)
