"""What of a job's range was read, and what was not: its units' stretches of time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dil.errors import ConfigError
from dil.model.interval import Interval
from dil.model.job import Job
from dil.planning.gaps import GapStatus, UnitGaps, gaps
from dil.planning.partitions import watermark_range
from dil.run.event_time import current
from dil.spi.state_store import StateStore
from dil.text.zones import find_zone, moment


@dataclass(frozen=True, slots=True)
class JobGaps:
    """The stretches of each unit in a window; epoch ms UTC."""

    window: Interval
    units: list[UnitGaps]

    def time_by_status(self) -> Counter[GapStatus]:
        """Return how many ms of all units have a status."""
        found: Counter[GapStatus] = Counter()
        for unit in self.units:
            for each in unit.stretches:
                found[each.status] += each.high - each.low
        return found

    def units_with(self, *statuses: GapStatus) -> int:
        """Return how many units of the job have a stretch of one of these statuses."""
        return sum(
            any(each.status in statuses for each in unit.stretches)
            for unit in self.units
            if unit.in_job
        )


def find_gaps(
    job: Job,
    store: StateStore,
    *,
    now_ms: int,
    low: int | None = None,
    high: int | None = None,
) -> JobGaps:
    """Return what of a window was read, failed, is skipped, was never read, or is still open.

    Neither source nor input is asked: of a job whose units come from there, those count that are
    recorded.

    Args:
        job: The job.
        store: Its state.
        now_ms: The one value of now, epoch ms UTC.
        low: Where the window begins, by default at the watermark's from.
        high: Where it ends, by default at the watermark's to.

    Raises:
        ConfigError: the window is empty, or the watermark cannot be understood.
        StateError: the store cannot be read.
    """
    whole = watermark_range(job.planning, now_ms=now_ms)
    window = Interval(whole.low if low is None else low, whole.high if high is None else high)
    if window.is_empty and not (low is high is None):
        zone = find_zone(job.planning.zone)
        raise ConfigError.single(
            "--from",
            f"is {moment(window.low, zone)}, which is not before --to, {moment(window.high, zone)}",
            "Let --from be before --to: the range is [from, to). By default they are those of "
            "ms.watermark.",
        )
    events = current(job, store)
    found = gaps(
        job.planning,
        window,
        store.unit_stretches(),
        now_ms=now_ms,
        watermark=None if events is None else events.watermark,
    )
    return JobGaps(window, found)
