"""Finds the stretches of time in a job's range that were read, and that were not read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dil.errors import ConfigError
from dil.model.history import UnitStretches
from dil.model.interval import Interval, joined
from dil.model.job import Job
from dil.operator.unresolved_failures import unresolved_failures
from dil.planning.gaps import GapStatus, UnitGaps, gaps
from dil.planning.partitions import partition, watermark_range
from dil.run.event_time import current
from dil.spi.state_store import StateStore
from dil.state.work_units.signatures import parts_of_signature
from dil.text.zones import find_zone, moment


@dataclass(frozen=True, slots=True)
class JobGaps:
    """The stretches of each unit in a window; epoch ms UTC."""

    window: Interval
    units: list[UnitGaps]

    def time_by_status(self) -> Counter[GapStatus]:
        """Return for each status the total ms of its stretches, over all units."""
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
    """Return the stretches of a window that were read, failed, skipped, never read, or are open.

    The source and the activation input are not asked: if the units come from one of them, only
    recorded units count.

    Args:
        job: The job.
        store: Its state.
        now_ms: The one value of now, epoch ms UTC.
        low: Where the window begins, by default at the watermark's ``from``.
        high: Where the window ends, by default at the watermark's ``to``.

    Raises:
        ConfigError: the window is empty, the watermark cannot be understood, or the job reads each
            file once (then no stretch of time can be missing).
        StateError: the store cannot be read.
    """
    if job.planning.once:
        raise ConfigError.single(
            "ms.source.files.once",
            f"is {job.planning.once}: each file is read once, whenever it comes, so no stretch of "
            "time can be missing",
            "`dil state show` lists the files that were read or failed, `dil plan` lists the files "
            "that are due.",
            job.properties.origin("ms.source.files.once"),
        )
    whole = watermark_range(job.planning, now_ms=now_ms)
    window = Interval(whole.low if low is None else low, whole.high if high is None else high)
    if window.is_empty and not (low is high is None):
        zone = find_zone(job.planning.zone)
        raise ConfigError.single(
            "--from",
            f"is {moment(window.low, zone)}, which is not before --to, {moment(window.high, zone)}",
            "Let --from be before --to: the range is [from, to). Their defaults are the range of "
            "ms.watermark.",
        )
    events = current(job, store)
    found = gaps(
        job.planning,
        window,
        _with_failures(store.unit_stretches(), _failed_now(job, store, now_ms)),
        now_ms=now_ms,
        watermark=None if events is None else events.watermark,
    )
    return JobGaps(window, found)


def _failed_now(job: Job, store: StateStore, now_ms: int) -> Mapping[str, Sequence[Interval]]:
    """Return the stretches that failed in the last runs that tried them, by unit key.

    A failed run with the commit policy ``full`` records only these failures of its work units.
    """
    failures = unresolved_failures(store) if job.state.enabled else ()
    if not failures:
        return {}
    partitions = partition(job.planning, now_ms=now_ms)
    ends = dict(zip(partitions.starts, partitions.ends, strict=True))
    found: dict[str, list[Interval]] = defaultdict(list)
    for each in failures:
        parts = parts_of_signature(each.signature)
        if parts is not None and parts.low in ends:
            found[parts.unit_key].append(Interval(parts.low, ends[parts.low]))
    return found


def _with_failures(
    recorded: Iterable[UnitStretches], failed: Mapping[str, Sequence[Interval]]
) -> Iterator[UnitStretches]:
    """Yield the recorded stretches by unit, with the failures of the last runs added."""
    known: set[str] = set()
    for unit in recorded:
        known.add(unit.unit_key)
        more = failed.get(unit.unit_key, ())
        yield replace(unit, failed=_joined_in_order((*unit.failed, *more))) if more else unit
    for key in sorted(failed.keys() - known):
        yield UnitStretches(key, failed=_joined_in_order(failed[key]))


def _joined_in_order(stretches: Iterable[Interval]) -> list[Interval]:
    """Return stretches of any order in ascending order; those that touch or overlap become one."""
    return joined(sorted((each.low, each.high) for each in stretches))
