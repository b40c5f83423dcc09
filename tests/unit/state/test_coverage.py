"""Coverage never claims a partition that has no success, and loses none that it can know."""

from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.interval import Interval
from dil.state.work_units.coverage import Spans, contradicts, cover, spans_of, uncover


class KnownTiles(dict[int, int]):
    """Tiles by start."""

    def end_of_tile_at(self, low: int) -> int | None:
        return self.get(low)

    def start_of_tile_until(self, high: int) -> int | None:
        return next((low for low, end in self.items() if end == high), None)


def feed(*tiles: tuple[int, int]) -> Spans:
    """Return the spans after successes; a tile without length is a success that is lost."""
    known = KnownTiles()
    spans = Spans()
    for low, high in tiles:
        earlier = known.pop(low, None)
        if earlier not in (None, high):
            spans = uncover(spans, Interval(low, earlier))
        if high > low:
            known[low] = high
        tile = Interval(low, high)
        if high in (low, earlier):
            continue
        spans = Spans(tile) if contradicts(spans, tile) else cover(spans, tile, known)
    return spans


@pytest.mark.parametrize(
    ("tiles", "main"),
    [
        ([(0, 1)], (0, 1)),
        ([(0, 1), (1, 3), (3, 4)], (0, 4)),
        ([(3, 4), (1, 3), (0, 1)], (0, 4)),
        ([(0, 1), (2, 3), (1, 2)], (0, 3)),
        ([(0, 1), (2, 3), (4, 5), (6, 7), (3, 4), (1, 2)], (0, 5)),
        ([(0, 1), (2, 3), (4, 5), (6, 7), (5, 6), (3, 4), (1, 2)], (0, 7)),
        ([(0, 1), (0, 1), (0, 1)], (0, 1)),
    ],
)
def test_spans_join_where_they_meet(tiles: list[tuple[int, int]], main: tuple[int, int]) -> None:
    assert feed(*tiles).main == Interval(*main)


def test_a_partition_that_never_succeeds_does_not_stop_coverage_from_growing() -> None:
    spans = feed((0, 1), (1, 2), *((day, day + 1) for day in range(3, 100)))
    assert spans.main == Interval(3, 100)
    assert spans.tail == Interval(0, 2)


def test_a_last_partition_that_grows_extends_what_is_covered() -> None:
    assert feed((0, 31), (31, 52), (31, 53), (31, 60), (60, 61)).main == Interval(0, 61)


def test_a_last_partition_that_succeeds_again_shorter_can_grow_again() -> None:
    shorter = (0, 31), (31, 60), (31, 52)
    assert feed(*shorter) == Spans(Interval(0, 52))
    assert feed(*shorter, (31, 62)) == Spans(Interval(0, 62))


def test_a_partition_that_loses_its_success_leaves_two_spans_until_it_succeeds_again() -> None:
    lost = (0, 7), (7, 14), (14, 21), (21, 28), (7, 7)
    assert feed(*lost) == Spans(Interval(14, 28), Interval(0, 7))
    assert feed(*lost, (7, 14)) == Spans(Interval(0, 28))


def test_an_unknown_start_inside_the_span_means_another_grid() -> None:
    spans = feed((0, 7), (7, 14))
    assert contradicts(spans, Interval(3, 10))
    assert contradicts(spans, Interval(13, 20))
    assert contradicts(spans, Interval(-3, 4))
    assert not contradicts(spans, Interval(14, 21))
    assert feed((0, 7), (7, 14), (1, 8)).main == Interval(1, 8)


@st.composite
def grids(draw: st.DrawFn) -> list[tuple[int, int]]:
    lengths = draw(st.lists(st.integers(1, 31), min_size=1, max_size=14))
    bounds = [0]
    for length in lengths:
        bounds.append(bounds[-1] + length)
    return list(pairwise(bounds))


@settings(max_examples=150)
@given(st.data())
def test_coverage_equals_what_a_full_scan_allows(data: st.DataObject) -> None:
    grid = data.draw(grids())
    starts = [low for low, _ in grid]
    order = data.draw(st.lists(st.sampled_from(grid), max_size=30))
    spans = feed(*order)
    done = {low for low, _ in order}
    main = spans.main
    for span in (spans.main, spans.tail):
        inside = [low for low in starts if span.low <= low < span.high]
        assert set(inside) <= done, "claims a partition without success"
    if not order:
        assert main.is_empty
        return
    after = bisect_right(starts, main.high - 1)
    assert after == len(grid) or starts[after] not in done, "could reach further up"
    before = starts.index(main.low) - 1
    assert before < 0 or starts[before] not in done, "could reach further down"
    runs = _runs(grid, done)
    assert main in runs
    if len(runs) <= 2:
        assert main.high - main.low == max(run.high - run.low for run in runs)


@settings(max_examples=150)
@given(grids(), st.data())
def test_spans_hold_only_present_tiles_however_these_change(
    grid: list[tuple[int, int]], data: st.DataObject
) -> None:
    changes = st.sampled_from(grid).flatmap(
        lambda each: st.tuples(st.just(each[0]), st.integers(*each))
    )
    order = data.draw(st.lists(changes, max_size=30))
    ends = {low: high for low, high in dict(order).items() if high > low}
    for span in (feed(*order).main, feed(*order).tail):
        place = span.low
        while place < span.high:
            place = ends[place]
        assert place == span.high


@settings(max_examples=100)
@given(grids(), st.data())
def test_counting_all_tiles_again_gives_the_widest_run_and_the_newest_other(
    grid: list[tuple[int, int]], data: st.DataObject
) -> None:
    done = data.draw(st.sets(st.sampled_from([low for low, _ in grid])))
    spans = spans_of(Interval(*tile) for tile in grid if tile[0] in done)
    runs = _runs(grid, done)
    if not runs:
        assert spans == Spans()
        return
    assert spans.main in runs
    assert spans.main.high - spans.main.low == max(run.high - run.low for run in runs)
    others = [run for run in runs if run != spans.main]
    assert spans.tail == (others[-1] if others else Spans().tail)


def test_tiles_of_two_grids_cover_nothing() -> None:
    assert spans_of([Interval(0, 7), Interval(1, 2), Interval(7, 14)]) == Spans()


def _runs(grid: list[tuple[int, int]], done: set[int]) -> list[Interval]:
    runs: list[Interval] = []
    for low, high in grid:
        if low not in done:
            continue
        if runs and runs[-1].high == low:
            runs[-1] = Interval(runs[-1].low, high)
        else:
            runs.append(Interval(low, high))
    return runs
