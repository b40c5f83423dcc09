"""Which rows of a reading are new: by key, or by all values, counted."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dil.eventtime import new_row_lateness
from dil.eventtime.lateness import Histogram, histogram_of
from dil.eventtime.new_row_lateness import AT, Identity, lateness_of_new, unpaired

H = 1_700_000_000_000
TWO = pa.schema([("a", pa.int64()), ("b", pa.string())])
Row = tuple[int | None, str | None]
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 4), st.none() | st.sampled_from("xyz")))


def at_of(row: Row) -> int:
    """Return the event time of a row: equal rows have the same."""
    return H - 7 * (row[0] or 0) - 100 * ord(row[1] or "a")


def table(rows: list[Row]) -> pa.Table:
    return pa.table({"c0": [a for a, _ in rows], "c1": [b for _, b in rows]}, _SCHEMA)


_SCHEMA = pa.schema([("c0", pa.int64()), ("c1", pa.string())])


def found(known: list[list[Row]], fresh: list[list[Row]], identity: Identity, size: int = 1):
    names = ["c0"] if identity.is_key else ["c0", "c1"]
    before = [table(each).select(names) for each in known]
    read = [
        table(each).select(names).append_column(AT, pa.array(list(map(at_of, each)), pa.int64()))
        for each in fresh
    ]
    return lateness_of_new(lambda: before, lambda: read, size, identity, H)


def found_by_both(known: list[list[Row]], fresh: list[list[Row]], size: int):
    before = [table(each) for each in known]
    read = [
        table(each).append_column(AT, pa.array(list(map(at_of, each)), pa.int64()))
        for each in fresh
    ]
    return lateness_of_new(lambda: before, lambda: read, size, Identity(TWO, is_key=True), H)


def by_hand(rows: list[Row]) -> Histogram:
    return histogram_of(pa.array(list(map(at_of, rows)), pa.int64()), H)


@given(st.lists(ROWS, max_size=3), st.lists(ROWS, max_size=3), st.sampled_from([1, 2**27, 2**29]))
def test_without_a_key_rows_are_counted(known, fresh, size):
    before = Counter(row for rows in known for row in rows)
    read = Counter(row for rows in fresh for row in rows)
    new = list((read - before).elements())
    assert found(known, fresh, Identity(TWO, is_key=False), size) == by_hand(new)


@given(st.lists(ROWS, max_size=3), st.lists(ROWS, max_size=3), st.sampled_from([1, 2**27, 2**29]))
@example([[(1, "x")]], [[(1, "y")]], 2**29)
def test_rows_that_are_replaced_count_only_where_there_are_more_than_before(known, fresh, size):
    """Rows that changed may be in another portion than before; ``a`` is the event time."""

    def times(lists: list[list[Row]]) -> Counter[int | None]:
        return Counter(a for rows in lists for a, _ in rows)

    before = [table(each) for each in known]
    read = [
        table(each).append_column(AT, pa.array([_time(row) for row in each], pa.int64()))
        for each in fresh
    ]
    identity = Identity(TWO, is_key=False, replaces_known=True)
    found = lateness_of_new(lambda: before, lambda: read, size, identity, H)
    new = [_time((a, None)) for a in (times(fresh) - times(known)).elements()]
    assert found == histogram_of(pa.array(new, pa.int64()), H)


def _time(row: Row) -> int | None:
    return None if row[0] is None else H - 7 * row[0]


@given(st.lists(ROWS, max_size=3), st.lists(ROWS, max_size=3), st.sampled_from([1, 2**27, 2**29]))
def test_with_a_key_a_row_is_new_whose_key_is_not_known(known, fresh, size):
    before = {a for rows in known for a, _ in rows}
    new = [row for rows in fresh for row in rows if row[0] not in before]
    identity = Identity(pa.schema([TWO.field("a")]), is_key=True)
    assert found(known, fresh, identity, size) == by_hand(new)


@given(st.lists(ROWS, max_size=3), st.lists(ROWS, max_size=3), st.sampled_from([1, 2**29]))
def test_with_a_key_of_two_columns_a_row_is_new_whose_pair_is_not_known(known, fresh, size):
    before = {row for rows in known for row in rows}
    new = [row for rows in fresh for row in rows if row not in before]
    assert found_by_both(known, fresh, size) == by_hand(new)


@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_what_is_left_unpaired_says_the_same(known, more, chance):
    fresh = list(known)
    for row in more:
        fresh.insert(chance.randrange(len(fresh) + 1), row)
    rest, left = unpaired(table(known), table(fresh), ["c0", "c1"])
    rows_of = [[tuple(row.values()) for row in each.to_pylist()] for each in (rest, left)]
    one, other = Counter(known), Counter(fresh)
    assert Counter(rows_of[1]) - Counter(rows_of[0]) == other - one


def test_a_second_reading_in_the_same_order_is_paired_without_a_look_at_each_row():
    rows: list[Row] = [(n, "x") for n in range(5000)]
    late: list[Row] = [
        *rows[:1000],
        (-1, "x"),
        (-2, "x"),
        *rows[1000:3000],
        *rows[3001:],
        (-3, "x"),
    ]
    rest, left = unpaired(table(rows), table(late), ["c0", "c1"])
    assert rest["c0"].to_pylist() == [3000]
    assert left["c0"].to_pylist() == [-1, -2, -3]


def test_many_new_rows_between_known_ones_are_all_found():
    rows: list[Row] = [(n, "x") for n in range(1000)]
    read: list[Row] = [each for n, row in enumerate(rows) for each in (row, (-n - 1, "y"))]
    new = by_hand(read[1::2])
    assert found([rows], [read], Identity(TWO, is_key=False)) == new
    assert found_by_both([rows], [read], 1) == new


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -5], pa.int64()),
        ([2**64 - 1, None, 0], pa.uint64()),
        ([1.5, None, float("nan")], pa.float64()),
        ([Decimal("1.50"), None, Decimal("-3.00")], pa.decimal128(9, 2)),
        (["", None, "é" * 20], pa.string()),
        ([b"\xff\xfe", None, b"\x00" * 20], pa.binary()),
        ([date(2020, 1, 1), None, date(1969, 1, 1)], pa.date32()),
        ([1, None, -5], pa.timestamp("us", "UTC")),
        ([True, None, False], pa.bool_()),
        ([{"x": 1, "y": [1, 2]}, None, {"x": None, "y": []}], None),
    ],
)
def test_each_type_has_portions_and_identities(monkeypatch, values, kind):
    monkeypatch.setattr(new_row_lateness, "PORTION_BYTES", 1)
    column = pa.array(values, kind)
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    identity = Identity(batch.schema, is_key=False)
    known = identity.of(batch)
    twice = pa.RecordBatch.from_arrays([pa.concat_arrays([column, column])], names=["v"])
    times = pa.array([H - 5] * 6, pa.int64())
    fresh = identity.of(twice).append_column(AT, times)
    assert lateness_of_new(lambda: [known], lambda: [fresh], 4, identity, H).rows == 3
    assert lateness_of_new(lambda: [known], lambda: [fresh[:3]], 4, identity, H).rows == 0


def test_rows_without_time_do_not_count():
    read = pa.table({"c0": [1, 2], AT: pa.array([None, H], pa.int64())})
    identity = Identity(pa.schema([TWO.field("a")]), is_key=True)
    known = pa.table({"c0": [7]})
    assert lateness_of_new(lambda: [known], lambda: [read], 1, identity, H) == Histogram({0: 1})
    assert lateness_of_new(list, lambda: [read], 1, identity, H) == Histogram({0: 1})
    assert lateness_of_new(lambda: [known], list, 1, identity, H) == Histogram()
