"""The event times of one stream: its largest, how far rows were out of order, its watermark.

A stream is the rows of one value of ``ms.event.partition.column``, such as a device. Streaming
calls that a partition, and so do the property and the public API; a partition is elsewhere a slice
of time, so it is a stream in here.

A stream never takes rows itself: ``after`` returns the stream that it becomes, so that a batch that
is refused half-way changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from dil.eventtime.tally import StreamTally
from dil.model.event_time import MAX_BOUND_MS, AdaptiveBound, EventTimeSpec, Strategy

_SOURCE_DELAY_MS = 180
_NO_ROWS = pa.array([], pa.int32())
_NOTHING = pa.scalar(0, pa.int64())
_CAP = pa.scalar(MAX_BOUND_MS, pa.int64())


@dataclass(frozen=True, slots=True)
class EventStream:
    """What is kept of a stream; times in epoch ms UTC.

    ``delays`` are how many ms the last rows were behind the largest time of theirs, as int32, the
    oldest first; the adaptive strategy alone keeps them. ``last_seen`` is the time of the commit
    that had its last row.
    """

    rows: int
    largest: int
    watermark: int
    last_seen: int
    delays: pa.Int32Array = field(default_factory=lambda: _NO_ROWS)

    def is_idle(self, now: int, idle_ms: int | None) -> bool:
        """Return whether its last row is so long ago that it is not waited for."""
        return idle_ms is not None and now - self.last_seen >= idle_ms

    def cut_to(self, window: int) -> EventStream:
        """Return it with only the last delays, for a window that became smaller."""
        if len(self.delays) <= window:
            return self
        return replace(self, delays=self.delays[len(self.delays) - window :])


def after(
    old: EventStream | None, name: str, tally: StreamTally, now: int, spec: EventTimeSpec
) -> EventStream:
    """Return the stream after more rows."""
    highest = tally.largest
    largest = highest if old is None else max(old.largest, highest)
    rows = tally.rows + (0 if old is None else old.rows)
    delays = _NO_ROWS
    match spec.strategy:
        case Strategy.FIXED_DELAY:
            # Of this batch alone, so that a delay that became smaller acts on what comes now.
            candidate = highest - spec.delay_of(name)
        case Strategy.BOUNDED:
            candidate = largest - spec.delay_of(name)
        case Strategy.SOURCE_180MS:
            candidate = largest - _SOURCE_DELAY_MS
        case _:
            delays = _window(old, tally, spec)
            bound = spec.adaptive.bound_ms(quantile_of(delays, spec.adaptive), rows)
            candidate = largest - bound
    watermark = candidate if old is None else max(old.watermark, candidate)
    return EventStream(rows, largest, watermark, now, delays)


def _window(old: EventStream | None, tally: StreamTally, spec: EventTimeSpec) -> pa.Int32Array:
    """Return the delays of the last rows, these among them."""
    window, last = spec.adaptive.window, tally.last
    if spec.in_arrival_order:
        seen = [] if old is None else [old.largest]
        seen += [] if tally.before is None else [tally.before]
        ahead = pc.cumulative_max(last, start=max(seen)) if seen else pc.cumulative_max(last)
        behind = pc.subtract(ahead, last)
    else:
        # The largest time stands still in a batch, so that the order of its rows does not matter.
        ahead = last if old is None else pa.scalar(old.largest, pa.int64())
        behind = pc.max_element_wise(pc.subtract(ahead, last), _NOTHING)
    new = pc.min_element_wise(behind, _CAP).cast(pa.int32())
    kept = _NO_ROWS if old is None else old.delays
    return pa.concat_arrays([kept[max(0, len(kept) + len(new) - window) :], new])


def quantile_of(delays: pa.Int32Array, adaptive: AdaptiveBound) -> int:
    """Return the value whose rank is the quantile; no value between two is made up."""
    at = adaptive.rank(len(delays)) - 1
    index = pc.partition_nth_indices(delays, pivot=at)[at].as_py()
    return cast("int", delays[index].as_py())
