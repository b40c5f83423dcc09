"""Decides how many work units a micro-batch takes."""

from __future__ import annotations

from dataclasses import dataclass

from dil.model.report import RunReport
from dil.model.stream import StreamSpec

# A guess may be wrong by this factor; the micro-batch itself corrects it.
_GROWTH = 2


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
