"""All candidates of a plan, and which of the due ones a run takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge, nsmallest
from itertools import islice
from typing import TypeAlias

from dil.model.work_unit import Reason, Skip, WorkUnit
from dil.planning.cutoff import Decision, successful_high
from dil.planning.partitions import Partitions
from dil.planning.unit_history import Unit, UnitHistory

# Partition index, unit number: candidates sort in the order of the matrix (B5.3).
Candidate: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates that a run takes, in order, and the start of the earliest that it leaves."""

    taken: Sequence[Candidate]
    left_low: int | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every partition with every unit; ``views`` holds the units' histories in their order.

    ``fresh_reason`` is the reason of candidates without a record.
    """

    partitions: Partitions
    units: Sequence[Unit]
    views: Sequence[UnitHistory]
    fresh_reason: Reason

    def __len__(self) -> int:
        return len(self.partitions) * len(self.units)

    def choose(self, limit: int | None) -> Choice:
        """Choose which due candidates a run takes, at most ``limit``, in matrix order.

        Candidates whose last attempt failed take at most half of the limit while others are due,
        so that what can never succeed does not hold the rest up. Those tried least go first: they
        have waited longest, run for run (spec README 31). A limit of 1 has no half: the place is a
        retry's, unless a first reading waits for it.
        """
        retries = self._retries()
        regular = merge(*(self._regular(unit.number) for unit in self.units))
        if limit is None:
            return Choice(sorted([*retries, *regular]), None)
        others = sum(view.due_count() for view in self.views)
        share = limit // 2
        if limit == 1 and not any(view.has_first_reading() for view in self.views):
            share = 1
        places = min(len(retries), max(share, limit - others))
        in_order = list(islice(regular, limit - places))
        chosen = nsmallest(places, retries, key=self._patience)
        tried_again = [each for each in chosen if not self._overtakes(each, set(in_order))]
        taken = sorted([*tried_again, *in_order])
        left = [*islice(regular, 1), *sorted(set(retries).difference(tried_again))[:1]]
        return Choice(
            taken, min((self.partitions.starts[index] for index, _ in left), default=None)
        )

    def due_count(self) -> int:
        """Return how many candidates are due, without walking them all."""
        return sum(view.due_count() for view in self.views) + len(self._retries())

    def overall(self) -> int | None:
        """Return the largest cutoff O(u) of any unit, None where nothing ever succeeded."""
        return max((view.overall for view in self.views if view.overall is not None), default=None)

    def work_unit(self, candidate: Candidate, *, not_before: int) -> WorkUnit:
        """Return the work unit of a due candidate."""
        index, number = candidate
        unit, interval = self.units[number], self.partitions[index]
        decision = self.views[number].decisions.get(
            index, Decision(interval.low, self.fresh_reason)
        )
        return WorkUnit(
            signature=unit.signature(interval.low),
            low=interval.low if decision.low is None else decision.low,
            high=interval.high,
            partition=interval,
            unit_name=unit.name,
            unit_json=unit.json,
            reason=decision.reason,
            last_high=self._last_high(candidate),
            cutoff=decision.cutoff,
            not_before=not_before,
        )

    def skips(self) -> Iterator[Skip]:
        """Yield each candidate that is not due, in matrix order; needs fully looked up views."""
        found = sorted(
            (index, unit.number)
            for unit, view in zip(self.units, self.views, strict=True)
            for index, decision in view.decisions.items()
            if decision.low is None
        )
        for index, number in found:
            view, unit, interval = self.views[number], self.units[number], self.partitions[index]
            own = view.decisions[index].cutoff
            cutoffs = [cutoff for cutoff in (own, view.overall) if cutoff is not None]
            threshold = max(cutoffs, default=None)
            yield Skip(
                signature=unit.signature(interval.low),
                partition=interval,
                unit_json=unit.json,
                last_high=self._last_high((index, number)),
                cutoff=threshold,
                why="its end is not after the cutoff",
            )

    def _regular(self, number: int) -> Iterator[Candidate]:
        return ((index, number) for index in self.views[number].due())

    def _retries(self) -> list[Candidate]:
        return [
            (index, unit.number)
            for unit, view in zip(self.units, self.views, strict=True)
            for index in view.retries()
        ]

    def _overtakes(self, retry: Candidate, taken: set[Candidate]) -> bool:
        """Tell whether a retry would run before the rest of an older partition of its unit.

        Its success would make that rest look up to date: the unit's cutoff is past its end then.
        """
        index, number = retry
        view = self.views[number]
        return any(
            earlier < index
            and (earlier, number) not in taken
            and made.low is not None
            and not made.waits
            and (view.records[earlier].high or 0) < self.partitions.ends[earlier]
            for earlier, made in view.decisions.items()
        )

    def _patience(self, candidate: Candidate) -> tuple[int, Candidate]:
        index, number = candidate
        return self.views[number].records[index].attempts, candidate

    def _last_high(self, candidate: Candidate) -> int | None:
        index, number = candidate
        record = self.views[number].records.get(index)
        return None if record is None else successful_high(record)
