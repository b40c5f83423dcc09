"""All candidates of a plan, and the choice of the due candidates that a run takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge, nsmallest
from itertools import chain, islice
from typing import TypeAlias

from dil.model.interval import Interval
from dil.model.work_unit import Reason, Skip, WorkUnit
from dil.planning.cutoff import CutoffRule, successful_high
from dil.planning.partitions import Partitions
from dil.planning.unit_history import Unit, UnitView

# Partition index times number of units plus unit number: the place in the matrix (rule P16).
Candidate: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates that a run takes, in order, and the earliest start among the rest."""

    taken: Sequence[Candidate]
    left_low: int | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every partition with every unit; ``views`` holds the units' histories in their order.

    ``fresh_reason`` is the reason of candidates without a record; ``label_of`` gives the timelabel
    of a partition, if the job has timelabels.
    """

    partitions: Partitions
    units: Sequence[Unit]
    views: Sequence[UnitView]
    rule: CutoffRule
    fresh_reason: Reason
    label_of: Callable[[Interval], str] | None = None

    def __len__(self) -> int:
        return len(self.partitions) * len(self.units)

    def choose(self, limit: int | None) -> Choice:
        """Choose which due candidates a run takes, at most ``limit``, in matrix order.

        While other candidates are due, candidates whose last attempt failed take at most half of
        the limit, so that candidates that can never succeed do not hold up the others. Of the
        failed candidates, the ones with the fewest attempts go first, because they have waited
        longest (rule P27). Under a limit of 1, a first reading goes before retries.
        """
        due = self.due_count()
        if limit is None or due <= limit:
            if due == len(self):
                return Choice(range(due), None)
            return Choice(
                self._sorted(chain(view.regular, view.retries) for view in self.views), None
            )
        retries = self._sorted(view.retries for view in self.views)
        share = limit // 2
        if limit == 1 and not any(view.has_first_reading() for view in self.views):
            share = 1
        places = min(len(retries), max(share, limit - (due - len(retries))))
        regular = self._regular()
        in_order = list(islice(regular, limit - places))
        chosen = nsmallest(places, retries, key=self._patience)
        tried_again = self._without_overtaking(chosen, set(in_order))
        in_order += islice(regular, limit - len(tried_again) - len(in_order))
        taken = sorted(chain(tried_again, in_order))
        left = [*islice(regular, 1), *sorted(set(retries).difference(tried_again))[:1]]
        return Choice(
            taken,
            min((self.partitions.starts[each // len(self.units)] for each in left), default=None),
        )

    def due_count(self) -> int:
        """Return how many candidates are due, without walking them all."""
        return sum(view.due_count() for view in self.views)

    def overall(self) -> int | None:
        """Return the largest cutoff O(u) of all units, None if nothing has ever succeeded."""
        return max((view.overall for view in self.views if view.overall is not None), default=None)

    def work_unit(self, candidate: Candidate, not_before: int) -> WorkUnit:
        """Return the work unit of a due candidate."""
        index, number = divmod(candidate, len(self.units))
        unit, view, interval = self.units[number], self.views[number], self.partitions[index]
        low, reason, last_high, cutoff = interval.low, self.fresh_reason, None, None
        record = view.record(index, low)
        if record is not None:
            decision = self.rule.decide(interval, record, view.overall)
            low = low if decision.low is None else decision.low
            reason, cutoff = decision.reason, decision.cutoff
            last_high = successful_high(record)
        return WorkUnit(
            unit.signature(interval.low),
            low,
            interval.high,
            interval,
            unit.name,
            unit.json,
            reason,
            None if self.label_of is None else self.label_of(interval),
            last_high,
            cutoff,
            not_before,
            view.overall,
        )

    def skips(self) -> Iterator[Skip]:
        """Yield each candidate that is not due, in matrix order; needs complete views."""
        for candidate in self._sorted(view.not_due() for view in self.views):
            index, number = divmod(candidate, len(self.units))
            unit, view, interval = self.units[number], self.views[number], self.partitions[index]
            record = view.record(index, interval.low)
            decided = None if record is None or self.rule.once else record
            own = None if decided is None else self.rule.decide(interval, decided, None).cutoff
            is_cut = not (self.rule.once or (record is not None and record.skipped))
            cutoffs = (c for c in (own, view.overall) if c is not None and is_cut)
            if record is not None and record.skipped:
                why = "no run took place in its time (ms.timelabel.catchup=false)"
            else:
                why = "it was read" if self.rule.once else "its end is not after the cutoff"
            yield Skip(
                signature=unit.signature(interval.low),
                partition=interval,
                unit_json=unit.json,
                last_high=None if record is None else successful_high(record),
                cutoff=max(cutoffs, default=None),
                why=why,
                own_cutoff=own,
            )

    def _sorted(self, indices: Iterable[Iterable[int]]) -> list[Candidate]:
        """Return the candidates of each unit's partition indices, in matrix order."""
        step = len(self.units)
        return sorted(
            index * step + number for number, each in enumerate(indices) for index in each
        )

    def _regular(self) -> Iterator[Candidate]:
        """Yield due candidates that did not fail last, lazily, in matrix order."""
        if all(len(view.regular) == len(self.partitions) for view in self.views):
            return iter(range(len(self)))
        return merge(*map(self._of_unit, range(len(self.units))))

    def _of_unit(self, number: int) -> Iterator[Candidate]:
        step = len(self.units)
        return (index * step + number for index in self.views[number].regular)

    def _without_overtaking(
        self, retries: Sequence[Candidate], taken: set[Candidate]
    ) -> list[Candidate]:
        """Return the retries that would not overtake the rest of an older partition of their unit.

        If an overtaking retry succeeded, the unit's cutoff would move past the end of that rest,
        and the rest would look as if it had been read.
        """
        step, ends = len(self.units), self.partitions.ends
        first_rests: dict[int, Candidate] = {}
        for number in {retry % step for retry in retries}:
            view = self.views[number]
            rests = (
                candidate
                for index, candidate in zip(view.regular, self._of_unit(number), strict=True)
                if view.highs.get(index, ends[index]) < ends[index] and candidate not in taken
            )
            first_rests[number] = next(rests, len(self))
        return [retry for retry in retries if retry < first_rests[retry % step]]

    def _patience(self, candidate: Candidate) -> tuple[int, Candidate]:
        index, number = divmod(candidate, len(self.units))
        return self.views[number].open[index].attempts, candidate
