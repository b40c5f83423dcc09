"""The rule that decides whether a candidate is due, and from which instant on it is read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dil.model.history import UnitRecord
from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.work_unit import Reason


@dataclass(frozen=True, slots=True)
class CutoffDecision:
    """The result of the rule for one candidate; times epoch ms UTC.

    ``low`` is the instant at which reading starts, None if the candidate is not due. ``cutoff`` is
    the candidate's own cutoff C, None if nothing succeeded before. ``waits`` says that the
    candidate's last attempt failed, which is one reason to read it (rule P27).
    """

    low: int | None
    reason: Reason
    cutoff: int | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class CutoffRule:
    """The rule of a job: its grace and abstinent period, and the instant at which reading starts.

    ``shift_ms`` is the abstinent period minus the grace period. If ``from_partition_start`` is
    true, due candidates are read whole, as the publish mode ``window_replace`` needs (rule P22). If
    ``once`` is true, a successful candidate is never due again: the units are files, which do not
    grow.
    """

    shift_ms: int
    from_partition_start: bool = False
    once: bool = False

    @classmethod
    def of(cls, spec: PlanningSpec) -> CutoffRule:
        """Return the rule of a job."""
        once = bool(spec.once)
        shift_ms = spec.abstinent_ms - spec.grace_ms
        return cls(shift_ms, spec.read_from_partition_start or once, once)

    def decide(
        self, partition: Interval, record: UnitRecord | None, overall: int | None
    ) -> CutoffDecision:
        """Apply rules P19 and P20 to one candidate.

        If the candidate has no record, or never succeeded, [s, e) is due. Else the cutoff is
        C = H + A - G: its high watermark plus the abstinent period minus the grace period. The
        candidate is due if e > max(C, overall). It is also due if the last attempt failed, unless e
        is before the end that this attempt did not reach. It is read from max(s, C). A candidate
        that has nothing left to read is not due. A skipped candidate is never due, however long the
        grace period is. If ``once`` is true, only a failure makes a successful candidate due again.

        Args:
            partition: The candidate's [s, e).
            record: The record of its signature.
            overall: The cutoff O(u) of its unit.
        """
        if record is None or record.skipped:
            return CutoffDecision(None if record else partition.low, Reason.NEW)
        high = successful_high(record)
        if high is None:
            return CutoffDecision(partition.low, Reason.RETRY, waits=record.failed)
        cutoff = high + self.shift_ms
        reason = Reason.RETRY if record.failed else Reason.INCREMENTAL
        low = partition.low if self.from_partition_start else max(partition.low, cutoff)
        threshold = cutoff if overall is None else max(cutoff, overall)
        is_payable = record.failed and (record.owed is None or partition.high >= record.owed)
        is_open = not self.once and partition.high > threshold
        is_due = (is_payable or is_open) and low < partition.high
        return CutoffDecision(low if is_due else None, reason, cutoff, waits=record.failed)

    def overall(self, highs: Iterable[int | None]) -> int | None:
        """Return O(u): the newest successful high of one unit, shifted; None if there is none."""
        newest = max((high for high in highs if high is not None), default=None)
        return None if newest is None else newest + self.shift_ms

    def first_after(self, overall: int, ends: Sequence[int]) -> int:
        """Return the index of the first partition that ends after O(u); ``ends`` ascend.

        The succeeded partitions from this index on are due again, and none before it: O(u) is the
        newest cutoff of the unit, so ``decide`` gives the same result for each of these partitions.
        """
        return len(ends) if self.once else bisect_right(ends, overall)


def successful_high(record: UnitRecord) -> int | None:
    """Return the last successful high; None if it equals the start: no success (P18)."""
    return None if record.high == record.low else record.high
