"""Which rows repeat others: as defined row by row, and however the rows are cut into runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dil.execution.queries.repeats import PLACE, PUBLISHED, TIME, Repeats

Row = tuple[str, int, int]
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2]), st.integers(-9, 30)))
WITHIN = st.integers(0, 12)


def by_definition(rows: Sequence[Row], within: int) -> list[int]:
    """Return the places of the rows that no earlier published row of their key is near."""
    kept: list[int] = []
    for place, (*key, at) in enumerate(rows):
        near = (rows[n] for n in kept if [*rows[n][:2]] == key and abs(rows[n][2] - at) <= within)
        if not any(True for _ in near):
            kept.append(place)
    return kept


def batches(rows: list[tuple[str, int, int, int]], size: int) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(rows), size):
        columns = zip(*rows[begin : begin + size], strict=True)
        names = ["k0", "k1", TIME, PLACE]
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in columns], names=names)


def kept_of(rows: Sequence[Row], before: Sequence[Row], within: int, size: int) -> list[int]:
    """Return the places of the rows that our code keeps, with published rows before them."""
    judged = [(*row, PUBLISHED) for row in before]
    judged += [(*row, place) for place, row in enumerate(rows)]
    judged.sort(key=lambda row: (row[:2], row[3]))
    repeats = Repeats(within)
    left_out = {
        place for found in repeats.places(batches(judged, size)) for place in found.to_pylist()
    }
    return [place for place in range(len(rows)) if place not in left_out]


@given(rows=ROWS, within=WITHIN, size=st.integers(1, 7))
def test_a_row_is_kept_unless_an_earlier_kept_one_of_its_key_is_near(
    rows: list[Row], within: int, size: int
) -> None:
    assert kept_of(rows, [], within, size) == by_definition(rows, within)


@given(rows=ROWS, within=WITHIN, cuts=st.lists(st.integers(0, 60), max_size=4))
def test_the_same_rows_are_kept_however_they_are_cut(
    rows: list[Row], within: int, cuts: list[int]
) -> None:
    published: list[Row] = []
    ends = sorted({min(each, len(rows)) for each in cuts} | {len(rows)})
    begin = 0
    for end in ends:
        part = rows[begin:end]
        published += [part[place] for place in kept_of(part, published, within, 5)]
        begin = end

    assert published == [rows[place] for place in by_definition(rows, within)]


@given(rows=ROWS, within=WITHIN)
def test_no_two_published_rows_of_a_key_are_near_each_other(rows: list[Row], within: int) -> None:
    kept = [rows[place] for place in kept_of(rows, [], within, 5)]
    assert not [
        (one, other)
        for place, one in enumerate(kept)
        for other in kept[:place]
        if one[:2] == other[:2] and abs(one[2] - other[2]) <= within
    ]
