"""Finds the late rows of a batch, and the rows that are refused because of their event time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dil.model.event_time import EventTimeSpec

# Differences of times within this bound always fit 64 bits.
FARTHEST = 2**62


def refused_rows(rows: pa.Int64Array, now: int, spec: EventTimeSpec) -> pa.BooleanArray | None:
    """Return a mask of the refused rows, None if there are none; no strategy changes the result.

    ``rows`` are event times and ``now`` is the time of the commit, in epoch ms UTC.
    """
    highest = min(now + spec.max_future_ms, FARTHEST)
    rejects_nulls = spec.nulls == "reject" and rows.null_count > 0
    ends = pc.min_max(rows)
    lowest, largest = ends["min"].as_py(), ends["max"].as_py()
    is_within = lowest is None or (lowest >= -FARTHEST and largest <= highest)
    if is_within and not rejects_nulls:
        return None
    far = pc.or_(
        pc.greater(rows, pa.scalar(highest, pa.int64())),
        pc.less(rows, pa.scalar(-FARTHEST, pa.int64())),
    )
    return far.fill_null(rejects_nulls)


def late_rows(rows: pa.Int64Array, effective: int | None, spec: EventTimeSpec) -> pa.BooleanArray:
    """Return a mask, without nulls, of rows that the watermark ``effective`` judges late.

    Refused rows can be late.
    """
    if effective is None:
        return pa.repeat(pa.scalar(value=False), len(rows))
    compare = pc.less_equal if spec.is_inclusive else pc.less
    late = compare(rows, pa.scalar(effective, pa.int64()))
    return late.fill_null(fill_value=False) if late.null_count else late
