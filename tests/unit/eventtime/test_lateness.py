"""How late rows come, the grace period that follows, and which rows count for it."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import ConfigError
from dil.eventtime.lateness import (
    KEPT_COMMITS,
    CommitLateness,
    GraceCost,
    Histogram,
    LatenessMeter,
    histogram_of,
    merge,
)
from dil.model.grace import GraceSpec
from dil.model.json import JsonObject

HOUR = 3_600_000
DAY = 24 * HOUR
H = 1_700_000_000_000
SPEC = GraceSpec()
# Each whole number of ms up to 4, then four edges in each power of two.
EDGES = [0, 1, 2, 3, 4, *(2**k * (4 + part) // 4 for k in range(2, 36) for part in (1, 2, 3, 4))]
LATENESS = st.one_of(
    st.integers(-5, 2**37),
    st.sampled_from(EDGES).flatmap(lambda edge: st.integers(edge - 1, edge + 1)),
)
TIMES = st.lists(st.one_of(st.none(), LATENESS.map(lambda ms: H - ms)))


def by_hand(times: list[int | None]) -> Counter[int]:
    late = (min(max(0, H - each), 2**36) for each in times if each is not None)
    return Counter(EDGES[bisect_left(EDGES, ms)] for ms in late)


def measured(rows: dict[int, int], **changes: int | bool) -> CommitLateness:
    facts = {"grace_ms": 7 * DAY, "is_probe": False, "largest_before": H, "largest_after": H + DAY}
    return CommitLateness(Histogram(rows), **{**facts, **changes})  # type: ignore[arg-type]


def meter_of(*commits: CommitLateness) -> LatenessMeter:
    meter = LatenessMeter()
    for each in commits:
        meter = meter.after(each)
    return meter


@given(TIMES)
def test_each_row_is_in_the_bucket_whose_edge_is_the_next_at_or_above_its_lateness(
    times: list[int | None],
) -> None:
    assert histogram_of(pa.array(times, pa.int64()), H).rows_by_edge == by_hand(times)


def test_every_edge_ends_its_bucket() -> None:
    late = [edge + more for edge in EDGES for more in (0, 1)]

    found = histogram_of(pa.array([H - ms for ms in late]), H)

    assert found.rows_by_edge == by_hand([H - ms for ms in late])
    assert len(EDGES) == 141
    assert set(found.rows_by_edge) == set(EDGES)


@given(st.lists(TIMES, max_size=4))
def test_merged_histograms_are_that_of_all_rows(parts: list[list[int | None]]) -> None:
    arrays = [pa.array(part, pa.int64()) for part in parts]
    together = histogram_of(pa.chunked_array(arrays, pa.int64()), H)

    assert merge(histogram_of(each, H) for each in arrays) == together


QUANTILES = st.fractions(Fraction(1, 1000), 1, max_denominator=10_000)


@given(
    st.lists(st.tuples(LATENESS, st.integers(1, 50_000)), min_size=1),
    QUANTILES,
    st.sampled_from([HOUR, DAY]),
)
def test_a_recommended_grace_misses_no_larger_share_than_the_quantile_leaves(
    late: list[tuple[int, int]], quantile: Fraction, unit: int
) -> None:
    spec = GraceSpec(quantile=quantile, unit_ms=unit, high_ms=2**37)
    rows: Counter[int] = Counter()
    for ms, count in [*late, (0, 10_000)]:
        rows[EDGES[bisect_left(EDGES, min(max(ms, 0), 2**36))]] += count
    meter = meter_of(*[measured(dict(rows), is_probe=True)] * 7)

    grace = meter.recommended_ms(spec)

    assert grace is not None
    assert grace % unit == 0
    assert meter.histogram.later_than(grace) <= (1 - quantile) * meter.histogram.rows
    shorter = meter.histogram.later_than(grace - unit) if grace else None
    assert shorter is None or shorter > (1 - quantile) * meter.histogram.rows


def test_no_rows_have_no_quantile() -> None:
    with pytest.raises(ValueError, match="no rows were measured"):
        Histogram({}).quantile_edge(GraceSpec())


@pytest.mark.parametrize(("quantile", "days"), [("0.999", 1), ("0.9995", 2), ("1", 3)])
def test_the_example_of_coarse_buckets(quantile: str, days: int) -> None:
    rows = {0: 9900, HOUR: 60, DAY: 30, 2 * DAY: 9, 70 * HOUR: 1}
    spec = GraceSpec(quantile=Fraction(quantile))

    assert spec.rounded(Histogram(rows).quantile_edge(spec)) == days * DAY


@pytest.mark.parametrize(
    ("rows", "commits", "expected"),
    [(10_000, 6, None), (9_996, 7, None), (10_003, 7, 0), (2**24, 40, 0)],
)
def test_few_rows_or_few_commits_recommend_nothing(
    rows: int, commits: int, expected: int | None
) -> None:
    assert meter_of(*[measured({0: rows // commits})] * commits).recommended_ms(SPEC) == expected


@pytest.mark.parametrize(
    ("late_ms", "spec", "expected"),
    [
        (1, GraceSpec(unit_ms=HOUR), HOUR),
        (DAY, GraceSpec(), 2 * DAY),  # the edge of its bucket is past the day
        (0, GraceSpec(low_ms=2 * DAY), 2 * DAY),
        (40 * DAY, GraceSpec(), 31 * DAY),
        (40 * DAY, GraceSpec(high_ms=90_000_000), 90_000_000),
    ],
)
def test_a_grace_period_is_rounded_up_and_kept_within_its_limits(
    late_ms: int, spec: GraceSpec, expected: int
) -> None:
    rows = histogram_of(pa.array([H - late_ms] * 2000), H).rows_by_edge

    assert meter_of(*[measured(dict(rows), is_probe=True)] * 7).recommended_ms(spec) == expected


def test_rows_later_than_the_grace_of_their_run_count_from_probes_alone() -> None:
    late = {0: 2000, 3 * DAY: 20}
    usual, probe = measured(late, grace_ms=DAY), measured(late, grace_ms=DAY, is_probe=True)

    assert meter_of(*[usual] * 7).recommended_ms(SPEC) == 0
    assert meter_of(*[usual] * 7).histogram.rows == 7 * 2020
    assert meter_of(*[usual] * 6, probe).recommended_ms(SPEC) == 3 * DAY
    assert meter_of(*[measured(late, grace_ms=3 * DAY)] * 7).recommended_ms(SPEC) == 3 * DAY


def test_nothing_is_recommended_where_no_run_could_find_late_rows() -> None:
    blind = measured({0: 2000}, grace_ms=0)

    assert meter_of(*[blind] * 7).recommended_ms(SPEC) is None
    assert meter_of(*[blind] * 6, replace(blind, is_probe=True)).recommended_ms(SPEC) == 0
    assert meter_of(*[blind] * 6, replace(blind, grace_ms=1)).recommended_ms(SPEC) == 0


def test_the_largest_time_goes_on_and_never_back() -> None:
    meter = LatenessMeter().with_largest(None).with_largest(H)

    assert meter.with_largest(H - 1).with_largest(None).largest == H
    assert meter.after(measured({0: 1})).after(None).largest == H
    assert LatenessMeter.of(json.loads(json.dumps(meter.members()))) == meter


def test_the_last_28_commits_with_new_rows_are_remembered_and_runs_since_the_probe_counted() -> (
    None
):
    meter = LatenessMeter().after(measured({5: 1}, is_probe=True), is_probe=True)
    assert meter.runs_since_probe == 0

    for _ in range(KEPT_COMMITS):
        meter = meter.after(None).after(measured({})).after(measured({0: 1}))

    assert meter.histogram == Histogram({0: KEPT_COMMITS})
    assert meter.runs_since_probe == 3 * KEPT_COMMITS
    assert meter.after(None, is_probe=True).runs_since_probe == 0


def test_each_grace_period_has_what_it_would_have_missed_and_read_again() -> None:
    days = [
        measured({0: 96, DAY: 3, 5 * HOUR: 1}, largest_before=H + n * DAY, largest_after=H + DAY)
        for n in range(2)
    ]
    last = measured({2 * DAY: 100}, largest_before=H + 2 * DAY, largest_after=H + 3 * DAY)

    assert meter_of(*days, last).costs(2 * DAY + 1) == [
        GraceCost(0, 108, 0),
        GraceCost(1, 100, 300),
        GraceCost(2, 0, 600),
        GraceCost(3, 0, 900),
    ]
    assert LatenessMeter().costs(DAY) == [GraceCost(0, 0, 0), GraceCost(1, 0, 0)]


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(EDGES), st.integers(1, 2**40), min_size=1),
            st.integers(0, 2**40),
            st.booleans(),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_a_meter_goes_on_from_its_document(
    commits: list[tuple[dict[int, int], int, bool]], probe: bool
) -> None:
    meter = LatenessMeter()
    for rows, grace, is_probe in commits:
        meter = meter.after(
            measured(rows, grace_ms=grace, is_probe=is_probe), is_probe=is_probe
        ).after(None, is_probe=probe)

    assert LatenessMeter.of(json.loads(json.dumps(meter.members()))) == meter


def test_the_document_is_small() -> None:
    chance = random.Random(5)
    rows = {edge: chance.randrange(10**9) for edge in EDGES}

    assert len(json.dumps(meter_of(*[measured(rows)] * KEPT_COMMITS).members())) < 100_000


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"runs_since_probe": 1}, "is no lateness meter"),
        ({"format": 1, "runs_since_probe": "x", "commits": []}, "is no lateness meter"),
        ({"format": 2}, "has the format 2, and this release reads 1"),
    ],
)
def test_what_is_no_meter_is_refused(members: JsonObject, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LatenessMeter.of(members)
