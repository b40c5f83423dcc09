"""Rows by their event time: what counts as a time, which rows are late, refused, marked."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from dil.config import event_time_spec
from dil.errors import ConversionError
from dil.model.event_tally import EventContext
from dil.model.interval import Interval
from dil.model.schema import QuarantineSpec
from dil.model.task import AttemptId, TaskReport
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.rejects import NoRejects
from dil.storage import Folder, LocalFilesystem
from dil.task.event_time import EventRows, event_times, is_read_again
from dil.types.schema_text import schema_text
from dil.writing.quarantine import QuarantineWriter

NOW = 1_700_000_000_000
UNIT = WorkUnit("[u]", 0, 10, Interval(0, 10), "u", "{}", Reason.NEW)
BOUNDED = {"ms.event.column": "at", "ms.event.watermark": "bounded", "ms.event.delay": "PT0S"}


def table(at: pa.Array, **more: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([at, *more.values()], names=["at", *more])


def rows_of(effective: int | None = None, unit: WorkUnit = UNIT, rejects=None, **written: str):
    properties = {name.replace("__", "."): value for name, value in written.items()}
    spec = event_time_spec({**BOUNDED, **properties})
    return EventRows(spec, EventContext(effective), unit, NOW, rejects or NoRejects())


def longs(*values: int | None) -> pa.Int64Array:
    return pa.array(values, pa.int64())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([5, -5, None], pa.timestamp("s")), [5000, -5000, None]),
        (pa.array([5, -5], pa.timestamp("ms", "Europe/Paris")), [5, -5]),
        (
            pa.array([1999, -1, -1000, -1001, None], pa.timestamp("us", "UTC")),
            [1, -1, -1, -2, None],
        ),
        (pa.array([1_999_999, -1], pa.timestamp("ns")), [1, -1]),
        (pa.array([date(1970, 1, 2), date(1969, 12, 31)], pa.date32()), [86_400_000, -86_400_000]),
        (pa.array([date(1970, 1, 2)], pa.date64()), [86_400_000]),
        (pa.array([7, None], pa.int32()), [7, None]),
        (pa.array([2**40], pa.uint64()), [2**40]),
        (pa.nulls(2), [None, None]),
        (pa.array([], pa.timestamp("us")), []),
    ],
)
def test_times_become_whole_milliseconds_rounded_down(column, expected):
    assert event_times(table(column), "at").to_pylist() == expected


def test_times_beyond_all_bounds_stay_beyond_them():
    seconds = event_times(table(pa.array([2**62, -(2**62)], pa.timestamp("s"))), "at")
    assert seconds.to_pylist()[0] > 2**62 - 1 > -(2**62) + 1 > seconds.to_pylist()[1]
    assert event_times(table(pa.array([2**63], pa.uint64())), "at").to_pylist()[0] < -(2**62)


def test_a_path_finds_the_time_inside_of_nested_columns_and_of_json_texts():
    nested = pa.array(
        [{"when": {"ms": 5}}, {"when": None}],
        pa.struct([("when", pa.struct([("ms", pa.int64())]))]),
    )
    assert event_times(table(nested), "$.at.when.ms").to_pylist() == [5, None]
    texts = pa.array(['{"when": [{"ms": 5}]}', "{}", None], pa.string())
    assert event_times(table(texts), "$.at.when[0].ms").to_pylist() == [5, None, None]


def test_texts_are_refused_with_the_way_to_declare_the_column():
    with pytest.raises(ConversionError) as caught:
        event_times(table(pa.array(["2024-01-01"])), "at")
    assert "ms.event.column" in caught.value.message
    assert "timestamp in ms.output.schema" in caught.value.fix
    with pytest.raises(ConversionError, match="not times"):
        event_times(table(pa.array(['{"ms": "2024-01-01"}'])), "$.at.ms")


def test_a_missing_column_names_the_property_the_columns_and_the_nearest():
    batch = pa.RecordBatch.from_arrays([longs(1), longs(2)], names=["seen_at", "id"])
    with pytest.raises(ConversionError) as caught:
        event_times(batch, "seenat")
    assert 'ms.event.column is "seenat"' in caught.value.message
    assert "seen_at, id" in caught.value.message
    assert caught.value.fix == 'Did you mean "seen_at"?'


def test_a_sparse_column_may_be_missing_once_rows_had_it():
    rows = rows_of(NOW)
    other = pa.RecordBatch.from_arrays([longs(1)], names=["id"])
    assert [each.num_rows for each in rows.judged([table(longs(1)), other])] == [1, 1]
    assert rows.tally().nulls == 1
    with pytest.raises(ConversionError):
        list(rows_of().judged([other]))
    published = schema_text(table(longs(1)).schema)
    spec = event_time_spec(BOUNDED)
    later = EventRows(spec, EventContext(), UNIT, NOW, NoRejects(), published)
    assert [each.num_rows for each in later.judged([other])] == [1]


@pytest.mark.parametrize(
    ("boundary", "late"), [("exclusive", [True, False, False]), ("inclusive", [True, True, False])]
)
def test_rows_at_the_edge_of_the_watermark(boundary, late):
    rows = rows_of(100, ms__late__action="flag", ms__late__boundary=boundary)
    [found] = rows.judged([table(longs(99, 100, 101))])
    assert found["_late"].to_pylist() == late
    assert found["_lateness_ms"].to_pylist() == [1, 0, 0]
    assert rows.tally().late == sum(late)
    assert rows.tally().most_late_ms == 1


def test_columns_are_added_only_where_flag_is_written():
    batch = table(longs(1, None))
    [plain] = rows_of(5).judged([batch])
    assert plain == batch
    [flagged] = rows_of(5, ms__late__action="flag").judged([batch])
    assert flagged.schema.names == ["at", "_late", "_lateness_ms"]
    assert flagged["_late"].to_pylist() == [True, False]
    assert flagged["_lateness_ms"].to_pylist() == [4, None]
    [first] = rows_of(None, ms__late__action="flag").judged([batch])
    assert first["_late"].to_pylist() == [False, False]
    assert first["_lateness_ms"].to_pylist() == [0, None]


def test_drop_leaves_late_rows_out_and_says_how_many():
    rows = rows_of(5, ms__late__action="drop")
    [found] = rows.judged([table(longs(4, 5, None)), table(longs(1))])
    assert found["at"].to_pylist() == [5, None]
    tally = rows.tally()
    assert (tally.late, tally.dropped, tally.rows, tally.most_late_ms) == (2, 2, 3, 4)
    assert rows.put_aside == 2


def test_fail_says_how_many_rows_how_late_and_the_way_out():
    rows = rows_of(5_000_000, ms__late__action="fail")
    with pytest.raises(ConversionError) as caught:
        list(rows.judged([table(longs(4_999_000)), table(longs(1_400_000))]))
    assert "2 rows came late" in caught.value.message
    assert "1970-01-01T01:23:20Z" in caught.value.message
    assert "1 h 00 min" in caught.value.message
    assert "ms.late.action=flag" in caught.value.fix
    assert not caught.value.retryable
    list(rows_of(5, ms__late__action="fail").judged([table(longs(5))]))


def test_a_poison_time_goes_to_the_quarantine_and_moves_nothing(tmp_path: Path):
    folder = Folder(LocalFilesystem(), str(tmp_path))
    attempt = AttemptId("job", "run", "[u]", "u", 1)
    quarantine = QuarantineWriter(folder, QuarantineSpec(), attempt)
    rows = rows_of(None, rejects=quarantine, ms__event__null="reject")
    quarantine.begin(1, 4)
    day = 86_400_000
    [kept] = rows.judged([table(longs(NOW + day, NOW + day + 1, None, -(2**63)))])
    assert kept["at"].to_pylist() == [NOW + day]
    [file] = quarantine.finish()
    lines = [msgspec.json.decode(line) for line in Path(file.path).read_bytes().splitlines()]
    assert [line["row_number"] for line in lines] == [2, 3, 4]
    assert {line["column"] for line in lines} == {"at"}
    assert ["ms.event.max.future" in line["reason"] for line in lines] == [True, False, False]
    assert "ms.event.null" in lines[1]["reason"]
    assert rows.tally().refused == 3
    assert rows.tally().rows == 1


def test_rows_of_a_unit_that_was_published_are_neither_late_nor_counted():
    again = WorkUnit("[u]", 0, 10, Interval(0, 10), "u", "{}", Reason.INCREMENTAL, last_high=10)
    rows = rows_of(100, again, ms__late__action="flag")
    [found] = rows.judged([table(longs(1))])
    assert found["_late"].to_pylist() == [None]
    assert (rows.tally().unjudged, rows.tally().rows, rows.tally().streams) == (1, 0, b"")


def test_what_follows_the_last_reading_is_new_where_the_source_is_asked_from_there_on():
    spec = event_time_spec(BOUNDED)
    on = msgspec.structs.replace
    asks = replace(spec, reads_on=True)
    after = on(UNIT, low=5, last_high=5)
    assert not is_read_again(asks, EventContext(), after)
    assert is_read_again(asks, EventContext(), on(after, low=4))
    assert is_read_again(spec, EventContext(), after)
    assert is_read_again(asks, EventContext(known=frozenset(["[u]"])), UNIT)
    assert is_read_again(asks, EventContext(), on(UNIT, reason=Reason.BACKFILL))


def test_a_source_with_values_in_our_columns_is_refused():
    with pytest.raises(ConversionError, match="_late"):
        list(rows_of(ms__late__action="flag").judged([table(longs(1), _late=longs(1))]))
    lacking = table(longs(1), _late=pa.nulls(1, pa.bool_()))
    [found] = rows_of(ms__late__action="flag").judged([lacking])
    assert found.schema.names == ["at", "_late", "_lateness_ms"]


def test_rows_without_partition_are_judged_and_move_none():
    rows = rows_of(5, ms__event__partition__column="site")
    names = pa.array(["a", None])
    list(rows.judged([table(longs(7, 1), site=names)]))
    assert (rows.tally().rows, rows.tally().late) == (2, 1)
    delays = {"ms__event__partition__column": "site", "ms__event__delay": '{"b": 1}'}
    with pytest.raises(ConversionError, match='no delay of the partition "a"'):
        list(rows_of(5, **delays).judged([table(longs(7, 1), site=names)]))


def test_a_report_without_events_is_stored_as_before():
    plain = TaskReport("[u]", 0, 1, 1)
    assert b"events" not in msgspec.json.encode(plain)
    rows = rows_of(5)
    list(rows.judged([table(longs(1, 9))]))
    told = replace(plain, events=rows.tally())
    assert msgspec.json.decode(msgspec.json.encode(told), type=TaskReport) == told
