"""Cuts the due work of one moment into micro-batches, as large as earlier ones suggest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dil.model.report import RunReport
from dil.model.stream import StreamSpec
from dil.model.work_unit import Plan, WorkUnit
from dil.streaming.patience import Patience

# A guess may be wrong by this factor; the micro-batch itself corrects it.
_GROWTH = 2


@dataclass(frozen=True, slots=True)
class Due:
    """The work units of one micro-batch, as a plan of their own.

    ``is_alone`` says that there is only one work unit, whose failure is recorded.
    """

    plan: Plan
    is_alone: bool = False

    @property
    def signatures(self) -> tuple[str, ...]:
        """Return the signatures of the work units."""
        return tuple(unit.signature for unit in self.plan.work_units)


@dataclass(slots=True)
class Admission:
    """Guesses, from earlier micro-batches, how many work units fit the limits of rows and bytes.

    ``limit`` is the most work units that any micro-batch may have, None for no limit.
    """

    spec: StreamSpec
    limit: int | None
    _units: int = 0
    _rows: int = 0
    _bytes: int = 0
    _last: int = 0

    def next_size(self) -> int | None:
        """Return the most work units that the next micro-batch takes, None for all."""
        limits = [each for each in (self.spec.max_units, self.limit) if each is not None]
        for most, seen in ((self.spec.max_rows, self._rows), (self.spec.max_bytes, self._bytes)):
            if most is None:
                continue
            guess = most * self._units // seen if seen else self._last * _GROWTH
            limits.append(max(1, min(guess, max(1, self._last * _GROWTH))))
        return min(limits, default=None)

    def learn(self, report: RunReport) -> None:
        """Learn from the report of a micro-batch."""
        read = report.units.succeeded + report.units.adopted
        if read:
            self._units += read
            self._rows += report.rows
            self._bytes += report.bytes
            self._last = read


def micro_batches(
    due: Plan, admission: Admission, patience: Patience, now_s: float
) -> Iterator[Due]:
    """Yield micro-batches in the plan's order; each gets its size when it is requested.

    The frontier of each micro-batch stays below the due work units that are unread or held back.
    """
    work, lowest_held = _work(due, patience, now_s)
    place = 0
    while place < len(work):
        size = admission.next_size() or len(work)
        first = work[place]
        is_alone = patience.is_alone(first)
        if is_alone:
            size = 1
        elif patience.again and first.signature in patience.again:
            size = sum(unit.signature in patience.again for unit in work)
        taken = _together(work[place : place + size], patience)
        place += len(taken)
        left = work[place:]
        # The plan's own list is in order of time, so its first unit has the lowest start. A list in
        # another order is short enough to look at all units.
        lows = [unit.partition.low for unit in (left[:1] if work is due.work_units else left)]
        lows += [] if lowest_held is None else [lowest_held]
        plan = replace(
            due,
            work_units=tuple(taken),
            left=len(left),
            left_low=min(lows, default=None),
            missed=due.missed if place == len(taken) else (),  # the first micro-batch records them
        )
        yield Due(plan, is_alone)


def _work(due: Plan, patience: Patience, now_s: float) -> tuple[Sequence[WorkUnit], int | None]:
    """Return the work units to read now, repeated ones first, and the lowest start of the rest."""
    if patience.knows_nothing:
        return due.work_units, None
    again = patience.again
    work, held = list[WorkUnit](), list[WorkUnit]()
    for unit in due.work_units:
        (held if patience.is_held(unit, now_s) else work).append(unit)
    work.sort(key=lambda unit: unit.signature not in again)  # stable
    return work, min((unit.partition.low for unit in held), default=None)


def _together(taken: Sequence[WorkUnit], patience: Patience) -> Sequence[WorkUnit]:
    """Return the first work unit, and those up to the next one that must be read alone."""
    for place, unit in enumerate(taken):
        if place and patience.is_alone(unit):
            return taken[:place]
    return taken
