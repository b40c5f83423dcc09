"""The event times of one stream: the largest time, the delays of rows, the watermark.

A stream is the rows of one value of ``ms.event.partition.column``, such as a device. The property
and the public API call it a partition, as streaming systems do. Elsewhere in this project a
partition is a slice of time, so this module says stream.

A stream is immutable: ``all_after`` returns the streams after more rows, so that a batch that is
refused half-way changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, repeat
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from dil.eventtime.judging import FARTHEST
from dil.eventtime.tally import StreamTally, Tallies
from dil.model.event_time import MAX_BOUND_MS, AdaptiveBound, EventTimeSpec, Strategy

SOURCE_DELAY_MS = 180
_NO_ROWS = pa.array([], pa.int32())
_NOTHING = pa.scalar(0, pa.int64())
_CAP = pa.scalar(MAX_BOUND_MS, pa.int64())


@dataclass(frozen=True, slots=True)
class EventStream:
    """The kept state of a stream; times in epoch ms UTC.

    ``delays`` holds, for each of the last rows, its distance in ms behind the largest time so far,
    as int32, oldest first; only the adaptive strategy keeps delays. ``last_seen`` is the time of
    the commit that had its last row.
    """

    rows: int
    largest: int
    watermark: int
    last_seen: int
    delays: pa.Int32Array = field(default_factory=lambda: _NO_ROWS)

    def is_idle(self, now: int, idle_ms: int | None) -> bool:
        """Return whether the last row is so old that the watermark does not wait for the stream."""
        return idle_ms is not None and now - self.last_seen >= idle_ms

    def cut_to(self, window: int) -> EventStream:
        """Return the stream with only the last delays, for a window that became smaller."""
        if len(self.delays) <= window:
            return self
        return replace(self, delays=self.delays[len(self.delays) - window :])


def all_after(
    streams: Mapping[str, EventStream], tallies: Tallies, now: int, spec: EventTimeSpec
) -> dict[str, EventStream]:
    """Return the streams after more rows; streams without new rows stay as they are."""
    is_measured = spec.strategy is Strategy.ADAPTIVE and tallies
    delays = _delays(streams, tallies, spec) if is_measured else repeat(_NO_ROWS, len(tallies))
    found = dict(streams)
    for (name, tally), new in zip(tallies.items(), delays, strict=True):
        found[name] = _after(streams.get(name), name, tally, new, now, spec)
    return found


def _after(
    old: EventStream | None,
    name: str,
    tally: StreamTally,
    new: pa.Int32Array,
    now: int,
    spec: EventTimeSpec,
) -> EventStream:
    """Return the stream after more rows, the last of which have the delays ``new``."""
    highest = tally.largest
    largest = highest if old is None else max(old.largest, highest)
    rows = tally.rows + (0 if old is None else old.rows)
    delays = _NO_ROWS
    match spec.strategy:
        case Strategy.FIXED_DELAY:
            # From this batch's times only, so that a smaller delay has effect at once.
            candidate = highest - spec.delay_of(name)
        case Strategy.BOUNDED:
            candidate = largest - spec.delay_of(name)
        case Strategy.SOURCE_180MS:
            candidate = largest - SOURCE_DELAY_MS
        case _:
            kept = _NO_ROWS if old is None else old.delays
            kept = kept[max(0, len(kept) + len(new) - spec.adaptive.window) :]
            delays = pa.concat_arrays([kept, new])  # a copy, so that no batch stays in memory
            bound = spec.adaptive.bound_ms(quantile_of(delays, spec.adaptive), rows)
            candidate = largest - bound
    watermark = candidate if old is None else max(old.watermark, candidate)
    return EventStream(rows, largest, watermark, now, delays)


def _delays(
    streams: Mapping[str, EventStream], tallies: Tallies, spec: EventTimeSpec
) -> Iterator[pa.Int32Array]:
    """Yield for each tally how many ms its last rows are behind the largest time, at most the cap.

    The rows of all streams go through Arrow together: its calls cost more than these few rows.
    """
    last = [tally.last for tally in tallies.values()]
    ends = list(accumulate(len(each) for each in last))
    starts = []
    for name, tally in tallies.items():
        # The largest time before the last rows, or a time before all times. If only the order of
        # batches counts, it is the largest time before the batch, so that the order of rows inside
        # the batch does not matter.
        start = streams[name].largest if name in streams else -FARTHEST
        if spec.in_arrival_order and tally.before is not None:
            start = max(start, tally.before)
        starts.append(start)
    ahead = pc.run_end_decode(
        pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int64()), pa.array(starts, pa.int64()))
    )
    if spec.in_arrival_order:
        so_far = pa.concat_arrays([pc.cumulative_max(each) for each in last])
        ahead = pc.max_element_wise(ahead, so_far)
    behind = pc.subtract(ahead, pa.concat_arrays(last))
    behind = pc.min_element_wise(pc.max_element_wise(behind, _NOTHING), _CAP).cast(pa.int32())
    for start, end in pairwise([0, *ends]):
        yield behind[start:end]


def quantile_of(delays: pa.Int32Array, adaptive: AdaptiveBound) -> int:
    """Return the delay, in ms, whose rank is the quantile; values are not interpolated."""
    at = adaptive.rank(len(delays)) - 1
    index = pc.partition_nth_indices(delays, pivot=at)[at].as_py()
    return cast("int", delays[index].as_py())
