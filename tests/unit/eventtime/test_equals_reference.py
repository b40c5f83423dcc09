"""The vectorised watermark equals a plain reference, whatever the rows, settings and restarts."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.api import event_watermark
from dil.eventtime import EventWatermark
from tests.unit.eventtime.reference import Reference

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = 1_000_000
MARGINS = [(4, 1000), (6, 30), (8, 10)]
NAMES = st.sampled_from("abc")
TIMES = st.one_of(
    st.integers(START - 300, START + 300),
    st.integers(-5000, 5000),
    st.sampled_from([START + 2000, START + 2001, 2**62, -(2**62) - 1, 2**63]),
    st.none(),
)
BATCHES = st.lists(
    st.tuples(st.lists(st.tuples(TIMES, NAMES), max_size=12), st.integers(0, 400), st.booleans()),
    max_size=12,
)
SETTINGS = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(["fixed_delay", "bounded", "adaptive", "source_180ms"]),
        "idle": st.sampled_from([None, 300, 600]),
        "order": st.sampled_from(["batch", "arrival"]),
        "warmup": st.sampled_from(["hold", "ignore"]),
        "nulls": st.sampled_from(["keep", "reject", "ingest_time"]),
        "boundary": st.sampled_from(["exclusive", "inclusive"]),
        "lag": st.sampled_from([0, 1]),
        "window": st.integers(1, 12),
        "quantile": st.sampled_from(["0.1", "0.8", "0.95", "1", "0.333"]),
        "policy": st.sampled_from(["min", "max"]),
        "delay": st.one_of(
            st.integers(0, 50), st.fixed_dictionaries({name: st.integers(0, 50) for name in "abc"})
        ),
    }
)


def properties(asked: dict[str, object]) -> dict[str, str]:
    delay = asked["delay"]
    adaptive = {
        "window": asked["window"],
        "quantile": asked["quantile"],
        "min": 2,
        "max": 1000,
        "margins": MARGINS,
    }
    found = {
        "ms.event.watermark": asked["strategy"],
        "ms.event.delay": json.dumps(delay)
        if isinstance(delay, dict)
        else f"PT{delay / 1000:.3f}S",
        "ms.event.partition.column": "device",
        "ms.event.order": asked["order"],
        "ms.event.warmup": asked["warmup"],
        "ms.event.null": asked["nulls"],
        "ms.event.max.future": "PT2S",
        "ms.late.boundary": asked["boundary"],
        "ms.late.lag": asked["lag"],
        "ms.event.adaptive": json.dumps(adaptive),
    }
    if asked["idle"] is not None:
        found["ms.event.idle.timeout"] = f"PT{asked['idle'] / 1000:.3f}S"  # type: ignore[operator]
    if asked["strategy"] == "fixed_delay":
        found["ms.event.multi.policy"] = asked["policy"]
    return {name: str(value) for name, value in found.items()}


def reference(asked: dict[str, object]) -> Reference:
    return Reference(
        strategy=str(asked["strategy"]),
        delay=asked["delay"],  # type: ignore[arg-type]
        idle=asked["idle"],  # type: ignore[arg-type]
        policy=str(asked["policy"]) if asked["strategy"] == "fixed_delay" else "min",
        order=str(asked["order"]),
        warmup=str(asked["warmup"]),
        nulls=str(asked["nulls"]),
        future=2000,
        window=int(str(asked["window"])),
        quantile=Fraction(str(asked["quantile"])),
        low=2,
        high=1000,
        margins=MARGINS,
        boundary=str(asked["boundary"]),
        lag=int(str(asked["lag"])),
    )


@given(asked=SETTINGS, batches=BATCHES)
@settings(max_examples=150)
def test_every_batch_equals_the_reference(asked: dict[str, object], batches: list) -> None:  # type: ignore[type-arg]
    """Also when the state is stored and read between batches, which changes nothing."""
    watermark, plain, now = event_watermark(properties(asked)), reference(asked), START
    for rows, passed, is_restarted in batches:
        now += passed
        times, names = [time for time, _ in rows], [name for _, name in rows]
        found = watermark.commit(times, names, now=EPOCH + timedelta(milliseconds=now))
        late, effective, after, refused = plain.commit(times, names, now)
        assert (found.late, found.effective, found.watermark, found.quarantined) == (
            late,
            effective,
            after,
            refused,
        )
        if is_restarted:
            stored = watermark.state()
            watermark = event_watermark(properties(asked), state=stored)
            assert watermark.state() == stored


@pytest.mark.parametrize("order", ["batch", "arrival"])
@pytest.mark.parametrize("size", [1, 999, 5000, 5001, 20_000])
def test_many_rows_equal_the_reference(order: str, size: int) -> None:
    """With the numbers of the product: its margins, its bounds, its window of 5000."""
    total = 300 if size == 1 else 25_000
    chance = random.Random(f"{order} {size}")
    watermark = event_watermark({"ms.event.watermark": "adaptive", "ms.event.order": order})
    plain = Reference("adaptive", order=order)
    now = 10**9 + total * 100
    times = [10**9 + n * 100 - int(chance.expovariate(1 / 3000)) for n in range(total)]
    for start in range(0, total, size):
        part = times[start : start + size]
        found = watermark.commit(pa.array(part), now=EPOCH + timedelta(milliseconds=now))
        late, effective, after, _ = plain.commit(part, [""] * len(part), now)
        assert (found.effective, found.watermark) == (effective, after)
        assert found.late == late


def _committed(order: str, batches: list[list[int]]) -> EventWatermark:
    watermark = event_watermark({"ms.event.watermark": "adaptive", "ms.event.order": order})
    for batch in batches:
        watermark.commit(batch, now=EPOCH + timedelta(days=1))
    return watermark


@given(
    times=st.lists(st.integers(0, 10**6), min_size=1, max_size=60),
    cuts=st.sets(st.integers(1, 59)),
)
def test_cutting_rows_into_batches_keeps_what_is_measured(times: list[int], cuts: set[int]) -> None:
    """In the order of arrival the largest time, the count and the delays do not depend on it."""
    ends = [0, *sorted(cut for cut in cuts if cut < len(times)), len(times)]
    parts = [times[a:b] for a, b in pairwise(ends)]
    whole, cut = _committed("arrival", [times]), _committed("arrival", parts)
    rows = _committed("arrival", [[time] for time in times])
    for one, other in ((whole, cut), (cut, rows)):
        first, second = one.partitions[""], other.partitions[""]
        assert (first.rows, first.largest) == (second.rows, second.largest)
        assert first.delays.equals(second.delays)
    assert whole.watermark <= cut.watermark <= rows.watermark  # type: ignore[operator]


@given(
    first=st.lists(st.integers(0, 10**6), max_size=20),
    second=st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    chance=st.randoms(use_true_random=False),
)
def test_the_order_inside_a_batch_does_not_matter(
    first: list[int], second: list[int], chance: random.Random
) -> None:
    shuffled = chance.sample(second, len(second))
    one, other = _committed("batch", [first, second]), _committed("batch", [first, shuffled])
    assert one.watermark == other.watermark
    kept, moved = one.partitions[""], other.partitions[""]
    assert sorted(kept.delays.to_pylist()) == sorted(moved.delays.to_pylist())
    assert (kept.rows, kept.largest) == (moved.rows, moved.largest)
