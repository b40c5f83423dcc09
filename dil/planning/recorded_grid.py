"""Checks whether recorded partitions are still partitions of a job (rule P33)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.planning.partitions import Partitions, partition, shape, splitting_windows, watermark_range

# Longer than any partition, except the only partition of the type none.
_BEYOND_MS = 400 * 86_400_000


@dataclass(frozen=True, slots=True)
class Grid:
    """The partitions of a job up to the end of the records, whatever ``to`` and now are.

    ``is_same_kind`` says that earlier runs cut time in the same way, and only ``from`` has moved.
    Then a recorded partition that ends before its present end was only cut off by the earlier
    ``to``. ``only_start`` is the only start of a job without partitions, None if the job has
    partitions.
    """

    partitions: Partitions
    is_same_kind: bool
    only_start: int | None = None

    def misfits(self, recorded: Iterable[Interval]) -> Iterator[Interval]:
        """Yield the recorded partitions that a plan would read again under other boundaries.

        Recorded partitions outside of all partitions are left out: no plan reads them again.
        """
        starts, ends = self.partitions.starts, self.partitions.ends
        for each in recorded:
            at = bisect_left(starts, each.low)
            if at < len(starts) and starts[at] == each.low:
                is_cut_off = self.is_same_kind and each.high < ends[at]
                if each.high != ends[at] and not is_cut_off:
                    yield each
                continue
            begins_in = at > 0 and ends[at - 1] > each.low
            reaches_in = at < len(starts) and starts[at] < each.high
            if begins_in or reaches_in or self.only_start is not None:
                yield each


def grid_until(spec: PlanningSpec, reached_ms: int, known_shape: str, *, now_ms: int) -> Grid:
    """Return the partitions of a job up to the end of its records, ``reached_ms`` (epoch ms UTC).

    Raises:
        ConfigError: as ``partition``.
    """
    whole = replace(spec, partial=True)
    partitions = partition(whole, now_ms=now_ms, until_ms=reached_ms + _BEYOND_MS)
    is_whole = spec.partition.lower() == "none" and not spec.composite
    is_one = is_whole and splitting_windows(spec) is None
    low = watermark_range(spec, now_ms=now_ms).low if is_one else None
    return Grid(partitions, _kind(shape(spec)) == _kind(known_shape), low)


def _kind(text: str) -> dict[str, object] | str:
    """Return a shape without its ``from`` and note; a text of another release stays as it is."""
    try:
        members = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return text
    return {name: value for name, value in members.items() if name not in {"from", "apart"}}
