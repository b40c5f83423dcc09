"""Decides how long a service waits after failures, and which units it reads alone or later."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from dil.model.work_unit import WorkUnit

FIRST_S, LONGEST_S = 1.0, 300.0
# After so many failures of a whole micro-batch, its work units are read one by one.
SAME_BATCH = 5


def backoff_s(failures: int) -> float:
    """Return how many seconds to wait after this number of failures in a row."""
    return float(min(LONGEST_S, FIRST_S * 2 ** min(failures - 1, 30)))


@dataclass(slots=True)
class _Waiting:
    failures: int
    until_s: float


@dataclass(slots=True)
class Patience:
    """Recent failures of this process; a new process tries everything at once.

    A micro-batch that fails is tried again with the same work units. After five failures each work
    unit is read alone. A work unit that fails alone is held back, longer each time, while the
    others continue.
    """

    _batch: tuple[str, ...] = ()
    _times: int = 0
    _alone: set[str] = field(default_factory=set)
    _held: dict[str, _Waiting] = field(default_factory=dict)

    def failed_together(self, signatures: Iterable[str]) -> None:
        """Note that a micro-batch failed, and that state has no record of its work units."""
        batch = tuple(signatures)
        self._times = self._times + 1 if batch == self._batch else 1
        self._batch = batch
        if self._times >= SAME_BATCH:
            self._alone.update(batch)
            self._batch, self._times = (), 0

    def failed_alone(self, signatures: Iterable[str], now_s: float) -> None:
        """Note that state has the failures of these work units, so that others may go first."""
        for signature in signatures:
            failures = self._held[signature].failures + 1 if signature in self._held else 1
            self._held[signature] = _Waiting(failures, now_s + backoff_s(failures))
            self._alone.add(signature)

    def succeeded(self, signatures: Iterable[str]) -> None:
        """Forget the failures of published work units."""
        for signature in signatures:
            self._held.pop(signature, None)
            self._alone.discard(signature)
        self._batch, self._times = (), 0

    def is_held(self, unit: WorkUnit, now_s: float) -> bool:
        """Return whether it is too early to read a work unit again."""
        waiting = self._held.get(unit.signature)
        return waiting is not None and now_s < waiting.until_s

    def is_alone(self, unit: WorkUnit) -> bool:
        """Return whether a work unit has to be read alone."""
        return unit.signature in self._alone

    @property
    def again(self) -> Collection[str]:
        """Return the work units of the last failed micro-batch, which have to be read again."""
        return frozenset(self._batch)

    @property
    def knows_nothing(self) -> bool:
        """Return whether no failure is remembered."""
        return not (self._batch or self._alone or self._held)
