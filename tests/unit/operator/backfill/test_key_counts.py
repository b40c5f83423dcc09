"""Rows of a backfill and live rows, compared by key."""

import pyarrow as pa

from dil.operator.backfill.key_counts import KeyCounts, count_keys

NAN = float("nan")


def rows(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


def test_keys_are_counted_by_what_happens_to_their_last_row() -> None:
    before = rows(k=[1, 1, 2, 3], v=["old", "a", "b", "c"])
    after = rows(k=[1, 2, 4], v=["a", "B", "d"])
    assert count_keys(before, after, ["k"]) == KeyCounts(added=1, removed=1, changed=1, same=1)


def test_a_null_in_a_key_is_a_value_like_others() -> None:
    before = rows(k=[None, 1, None], n=["x", None, None], v=[1, 2, 3])
    after = rows(k=[None, None, 1], n=[None, "x", None], v=[3, 1, 20])
    assert count_keys(before, after, ["k", "n"]) == KeyCounts(changed=1, same=2)


def test_not_a_number_equals_itself_at_any_depth() -> None:
    def table(lists: list[object], x: float) -> pa.Table:
        return rows(k=[1, 2, 3], v=[NAN, 1.0, None], w=lists, r=[{"x": NAN}, {"x": x}, None])

    before = table([[NAN], [1.0], [None]], 1.0)
    assert count_keys(before, table([[NAN], [1.0], [None]], 1.0), ["k"]) == KeyCounts(same=3)
    after = table([[NAN, NAN], [1.0], [None]], 2.0)
    assert count_keys(before, after, ["k"]) == KeyCounts(changed=2, same=1)


def test_fractions_in_a_key_are_equal_as_in_a_merge() -> None:
    before, after = rows(k=[0.0, NAN], v=[1, 2]), rows(k=[-0.0, -NAN], v=[1, 20])
    assert count_keys(before, after, ["k"]) == KeyCounts(changed=1, same=1)


def test_a_column_that_one_side_lacks_is_null_there() -> None:
    before, after = rows(k=[1, 2], v=[None, "x"]), rows(k=[1, 2])
    assert count_keys(before, after, ["k"]) == KeyCounts(changed=1, same=1)
    assert count_keys(after, before, ["k"]) == KeyCounts(changed=1, same=1)


def test_no_rows_are_counted_too() -> None:
    some, none = rows(k=[1, 2], v=["a", "b"]), rows(k=[1], v=["a"]).slice(0, 0)
    assert count_keys(none, some, ["k"]) == KeyCounts(added=2)
    assert count_keys(some, none, ["k"]) == KeyCounts(removed=2)
    assert count_keys(none, none, ["k"]) == KeyCounts()
