"""The memory of an event watermark as bytes: what goes on after a restart, and how large it is."""

from __future__ import annotations

import base64
import contextlib
import json
import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.api import event_watermark
from dil.config import event_time_spec
from dil.errors import ConfigError
from dil.eventtime.kept import open_kept
from dil.eventtime.stored import StoredWatermark, decoded, encoded
from dil.eventtime.streams import EventStream
from dil.eventtime.tally import StreamTally, encode_tallies
from dil.model.event_tally import EventTally
from dil.model.event_time import MAX_BOUND_MS, Strategy
from dil.model.report import EventCounts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MS = round(NOW.timestamp() * 1000)
FIXED = {"ms.event.watermark": "fixed_delay", "ms.event.delay": "PT2S"}
BOUNDED = {"ms.event.watermark": "bounded", "ms.event.delay": "PT2S"}
PER_DEVICE = {"ms.event.partition.column": "device"}
# Written by the first release with event time: devices a and b under the settings of SMALL.
FORMAT_1 = base64.b64decode(
    "/////5ACAAAQAAAAAAAKAA4ABgAFAAgACgAAAAABBAAQAAAAAAAKAAwAAAAEAAgACgAAAMwAAAAEAAAABAAAAJQAAABc"
    "AAAAMAAAAAQAAACE////FAAAAAQAAAAEAAAANTUwMAAAAAAIAAAAcHJldmlvdXMAAAAArP///xQAAAAEAAAABAAAADU1"
    "MDAAAAAACQAAAHdhdGVybWFyawAAANT///8YAAAABAAAAAgAAABhZGFwdGl2ZQAAAAAIAAAAc3RyYXRlZ3kAAAAACAAM"
    "AAQACAAIAAAAEAAAAAQAAAABAAAAMQAAABMAAABkaWwuZXZlbnRfd2F0ZXJtYXJrAAYAAABkAQAAGAEAAOQAAACsAAAA"
    "dAAAAAQAAADE/v//AAAADBQAAAAcAAAABAAAAAEAAAAkAAAABgAAAGRlbGF5cwAAtP7//xAAFAAIAAYABwAMAAAAEAAQ"
    "AAAAAAABAhAAAAAYAAAABAAAAAAAAAAEAAAAaXRlbQAAAAA4////AAAAASAAAAAw////AAAAAhAAAAAcAAAABAAAAAAA"
    "AAAJAAAAbGFzdF9zZWVuAAAAbP///wAAAAFAAAAAZP///wAAAAIQAAAAHAAAAAQAAAAAAAAACQAAAHdhdGVybWFyawAA"
    "AKD///8AAAABQAAAAJj///8AAAACEAAAABgAAAAEAAAAAAAAAAcAAABsYXJnZXN0AND///8AAAABQAAAAMj///8AAAAC"
    "EAAAACAAAAAEAAAAAAAAAAQAAAByb3dzAAAAAAgADAAIAAcACAAAAAAAAAFAAAAAEAAUAAgAAAAHAAwAAAAQABAAAAAA"
    "AAAFEAAAACAAAAAEAAAAAAAAAAkAAABwYXJ0aXRpb24AAAAEAAQABAAAAP/////QAQAAFAAAAAAAAAAMABgABgAFAAgA"
    "DAAMAAAAAAMEABwAAAAoAQAAAAAAAAAAAAAMAB4AEAAEAAgADAAMAAAAIAEAACQAAAAYAAAAAgAAAAAAAAAAAAAAAAAG"
    "AAgABwAGAAAAAAAAAQ8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAdAAAAAAAAACAAAAAAAAAAEwAAAAAAAAA4AAAA"
    "AAAAAAAAAAAAAAAAOAAAAAAAAAAhAAAAAAAAAGAAAAAAAAAAAAAAAAAAAABgAAAAAAAAACEAAAAAAAAAiAAAAAAAAAAA"
    "AAAAAAAAAIgAAAAAAAAAIQAAAAAAAACwAAAAAAAAAAAAAAAAAAAAsAAAAAAAAAAhAAAAAAAAANgAAAAAAAAAAAAAAAAA"
    "AADYAAAAAAAAAB0AAAAAAAAA+AAAAAAAAAAAAAAAAAAAAPgAAAAAAAAAKwAAAAAAAAAAAAAABwAAAAIAAAAAAAAAAAAA"
    "AAAAAAACAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAACAAAAAAAAAAAAAAAAAAAA"
    "AgAAAAAAAAAAAAAAAAAAAAoAAAAAAAAAAAAAAAAAAAAMAAAAAAAAACi1L/0gDGEAAAAAAAABAAAAAgAAAAAAAAIAAAAA"
    "AAAAKLUv/SACEQAAYWIAAAAAABAAAAAAAAAAKLUv/SAQgQAACAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAQAAAAAAAAACi1"
    "L/0gEIEAAADh9QUAAAAAfBUAAAAAAAAAAAAAAAAAEAAAAAAAAAAotS/9IBCBAADU3/UFAAAAAHwVAAAAAAAAAAAAAAAA"
    "ABAAAAAAAAAAKLUv/SAQgQAAAKjadpsBAAAAqNp2mwEAAAAAAAAAAAAMAAAAAAAAACi1L/0gDGEAAAAAAAAGAAAACgAA"
    "AAAAACgAAAAAAAAAKLUv/SAo1QAAmAAAAAAsAQC03PUFRN71BYCWmAACAADTBYwAAAAAAP////8AAAAA"
)
SMALL = {
    "ms.event.watermark": "adaptive",
    "ms.event.adaptive": json.dumps({"window": 6, "min": 0, "margins": [[2, 1000]]}),
}
DELAYS = st.one_of(
    st.integers(0, MAX_BOUND_MS),
    st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**24 - 1, 2**24, 1000, 604_800_000]),
)


def stored_with(*delays: list[int]) -> StoredWatermark:
    streams = {
        f"s{number:04}": EventStream(7, 6, 5, 4, pa.array(each, pa.int32()))
        for number, each in enumerate(delays)
    }
    return StoredWatermark(Strategy.ADAPTIVE, 5, None, streams, "device")


@given(st.lists(st.lists(DELAYS, max_size=20), max_size=4), st.booleans())
def test_what_is_kept_is_read_back(delays: list[list[int]], are_seconds: bool) -> None:
    if are_seconds:
        delays = [[each // 1000 * 1000 for each in stream] for stream in delays]
    stored = stored_with(*delays)
    again = decoded(encoded(stored))
    assert [each.delays.to_pylist() for each in again.streams.values()] == delays
    assert (again.watermark, again.previous, again.stream_column) == (5, None, "device")
    assert encoded(again) == encoded(stored)


def test_a_state_of_the_first_format_goes_on_where_it_ended() -> None:
    watermark = event_watermark({**SMALL, **PER_DEVICE}, state=FORMAT_1)
    kept = {name: each.delays.to_pylist() for name, each in watermark.partitions.items()}
    assert kept == {"a": [0, 300, 0, 99_998_900, 99_999_300, 10_000_000], "b": [0, 0, 0, 0]}
    assert watermark.watermark == 5500
    assert event_watermark({**SMALL, **PER_DEVICE}, state=watermark.state()).partitions.keys() == {
        "a",
        "b",
    }


def test_a_newer_format_is_refused() -> None:
    newer = encoded(stored_with([1]))
    with pa.ipc.open_stream(newer) as reader:
        table = reader.read_all()
    facts = {**table.schema.metadata, b"dil.event_watermark": b"3"}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata(facts)) as writer:
        writer.write_table(table.replace_schema_metadata(facts))
    with pytest.raises(ConfigError, match="has the format 3"):
        decoded(sink.getvalue().to_pybytes())


def test_no_flipped_bit_of_a_state_is_more_than_an_error() -> None:
    """Arrow does not check what it reads: a list that ended behind its values ended the process."""
    watermark = event_watermark({**SMALL, **PER_DEVICE})
    watermark.commit([1, 3000, 2], ["a", "b", "a"], now=NOW)
    state = watermark.state()
    for bit in range(0, 8 * len(state), 13):
        damaged = bytearray(state)
        damaged[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(ConfigError):
            encoded(decoded(bytes(damaged)))


@pytest.mark.parametrize("properties", [FIXED, BOUNDED])
def test_a_partition_column_that_is_set_later_lets_the_watermark_move_on(
    properties: dict[str, str],
) -> None:
    before = event_watermark(properties)
    assert before.commit([10_000], now=NOW).watermark == 8000
    after = event_watermark({**properties, **PER_DEVICE}, state=before.state())
    assert after.watermark == 8000
    batch = after.commit([7999, 20_000], ["a", "b"], now=NOW)
    assert (batch.late, batch.watermark) == ([True, False], 8000)
    assert after.commit([30_000], ["a"], now=NOW).watermark == 18_000


@pytest.mark.parametrize("column", [{}, {"ms.event.partition.column": "site"}])
def test_partitions_of_a_column_that_is_no_more_hold_no_watermark(column: dict[str, str]) -> None:
    before = event_watermark({**FIXED, **PER_DEVICE})
    assert before.commit([10_000, 50_000], ["a", "b"], now=NOW).watermark == 8000
    after = event_watermark({**FIXED, **column}, state=before.state())
    assert (after.watermark, after.partitions) == (8000, {})
    names = ["north"] if column else None
    assert after.commit([30_000], names, now=NOW).watermark == 28_000


def test_a_partition_whose_delay_is_left_out_holds_no_watermark() -> None:
    def delays(*names: str) -> dict[str, str]:
        return {**FIXED, **PER_DEVICE, "ms.event.delay": json.dumps(dict.fromkeys(names, "PT2S"))}

    before = event_watermark(delays("a", "b"))
    assert before.commit([10_000, 50_000], ["a", "b"], now=NOW).watermark == 8000
    after = event_watermark(delays("b"), state=before.state())
    assert after.commit([60_000], ["b"], now=NOW).watermark == 58_000


def test_a_partition_without_a_name_of_its_own_stays() -> None:
    before = event_watermark({**BOUNDED, **PER_DEVICE})
    before.commit([10_000, 50_000], ["", "b"], now=NOW)
    after = event_watermark({**BOUNDED, **PER_DEVICE}, state=before.state())
    assert sorted(after.partitions) == ["", "b"]


@pytest.mark.parametrize("column", ["", "device"])
def test_states_of_the_first_format_keep_what_may_have_rows(column: str) -> None:
    streams = {
        name: EventStream(1, 10_000, 8000, 0) for name in ("", "a")
    }  # as a job left them whose partition column was set later
    facts = {
        b"dil.event_watermark": b"1",
        b"strategy": b"bounded",
        b"watermark": b"8000",
        b"previous": b"8000",
    }
    delays = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), pa.array([], pa.int32()))
    table = pa.table(
        {
            "partition": list(streams),
            "rows": [1, 1],
            "largest": [10_000] * 2,
            "watermark": [8000] * 2,
            "last_seen": [0, 0],
            "delays": delays,
        }
    ).replace_schema_metadata(facts)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    named = {"ms.event.partition.column": column} if column else {}
    after = event_watermark({**BOUNDED, **named}, state=sink.getvalue().to_pybytes())
    assert list(after.partitions) == (["a"] if column else [""])


def test_the_checkpoint_of_a_job_lets_its_watermark_move_on() -> None:
    spec = event_time_spec({**FIXED, "ms.event.column": "at"})
    kept = open_kept(spec, {})
    kept.watermark.commit([10_000], now=NOW)
    later = event_time_spec({**FIXED, **PER_DEVICE, "ms.event.column": "at"})
    opened = open_kept(later, kept.members())
    assert (opened.watermark.watermark, opened.watermark.partitions) == (8000, {})
    assert opened.watermark.commit([30_000], ["a"], now=NOW).watermark == 28_000


@pytest.mark.parametrize(
    "state", ["no base64!", "\N{EURO SIGN}", base64.b64encode(b"no watermark").decode(), None]
)
def test_a_watermark_whose_state_is_damaged_starts_over_where_it_was(state: str | None) -> None:
    spec = event_time_spec({**BOUNDED, "ms.event.column": "at"})
    kept = open_kept(spec, {})
    kept.watermark.commit([10_000], now=NOW)
    assert open_kept(spec, kept.members(), floor=9000).watermark.watermark == 9000
    damaged = {**kept.members(), "state": state}
    opened = open_kept(spec, damaged)
    assert opened.watermark.watermark == 8000
    assert open_kept(spec, damaged, floor=9000).watermark.watermark == 9000
    assert opened.watermark.commit([5000], now=NOW).late == [True]


WARM = {"ms.event.watermark": "adaptive", "ms.event.adaptive": '{"min": 1000}'}


@pytest.mark.parametrize(
    ("settings", "rows", "bound", "phase"),
    [
        ({"ms.event.watermark": "none"}, 1, None, ""),
        ({"ms.event.watermark": "system_time", "ms.event.delay": "PT5S"}, 1, 5000, ""),
        ({"ms.event.watermark": "source_180ms"}, 1, 180, ""),
        (FIXED, 1, 2000, ""),
        (BOUNDED, 0, None, ""),
        (BOUNDED, 1, 2000, ""),
        (WARM, 1, MAX_BOUND_MS, "warm-up, 1 of 251 rows"),
        (WARM, 501, 10_000, "measured, with a margin of 10,000 ms"),
    ],
)
def test_people_see_how_far_the_watermark_stays_behind_and_why(
    settings: dict[str, str], rows: int, bound: int | None, phase: str
) -> None:
    kept = open_kept(event_time_spec({**settings, "ms.event.column": "at"}), {})
    kept.watermark.commit([1_000_000] * rows, now=NOW)
    summary = kept.summary(None, EventCounts(), MS)
    assert (summary.bound_ms, summary.phase) == (bound, phase)


def test_runs_add_up_their_counts_and_only_judged_rows_move_the_watermark() -> None:
    spec = event_time_spec({**BOUNDED, **PER_DEVICE, "ms.event.column": "at"})

    def judged(**largest: int) -> EventTally:
        streams = {name: StreamTally(1, at) for name, at in largest.items()}
        return EventTally(
            rows=len(largest), late=1, most_late_ms=5, streams=encode_tallies(streams)
        )

    first = open_kept(spec, {}).after([judged(a=100_000), judged(b=90_000)], MS)
    again = first.after([EventTally(unjudged=3, is_judged=False)], MS + 1000)
    assert again.counts == EventCounts(rows=2, late=2, most_late_ms=5, unjudged=3)
    assert (again.now, again.watermark.watermark) == (MS, 88_000)
    last = open_kept(spec, again.members()).after([judged(a=120_000)], MS + 2000)  # b is idle
    assert (last.counts.late, last.now, last.watermark.watermark) == (3, MS + 2000, 118_000)


def test_a_bound_is_that_of_the_partition_which_holds_the_watermark_back() -> None:
    delays = {"ms.event.delay": '{"a": "PT1S", "b": "PT9S"}'}
    settings = {**BOUNDED, **PER_DEVICE, **delays, "ms.event.column": "at"}
    kept = open_kept(event_time_spec(settings), {})
    kept.watermark.commit([100_000, 100_000], ["a", "b"], now=NOW)
    assert kept.summary(None, EventCounts(), MS).bound_ms == 9000
    later = kept.summary(None, EventCounts(), MS + 1)
    assert (later.idle, later.bound_ms) == (("a", "b"), 9000)


@pytest.mark.parametrize(
    ("share", "unit"),
    [(0.1, 1), (0.15, 1), (0.5, 1000)],
    ids=["a tenth, ms", "a seventh, ms", "half, whole seconds"],
)
def test_a_thousand_partitions_take_less_than_two_megabytes(share: float, unit: int) -> None:
    """Late by 3 s in the mean; a tenth of the streams is enough to measure, all are alike."""
    chance = random.Random(17)
    streams = [
        [
            int(chance.expovariate(unit / 3000)) * unit if chance.random() < share else 0
            for _ in range(5000)
        ]
        for _ in range(100)
    ]
    assert len(encoded(stored_with(*streams))) * 10 < 2_000_000
