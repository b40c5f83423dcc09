"""Settings of the grace period: how far before the last high watermark rows are read again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from dil.model.interval import DAY_MS


class GraceMode(StrEnum):
    """``ms.grace.mode``: how a run gets its grace period."""

    FIXED = "fixed"
    AUTO = "auto"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class GraceSpec:
    """The settings by which a run finds its grace period; lengths in ms.

    Under ``auto`` the grace period covers the share ``quantile`` of the measured rows, is a
    multiple of ``unit_ms`` and between ``low_ms`` and ``high_ms``. Every ``probe_every``-th run is
    a probe: it reads ``high_ms`` back, because other runs miss rows that are later than their own
    grace period. If ``probe_every`` is 0, there are no probes.
    """

    mode: GraceMode = GraceMode.FIXED
    quantile: Fraction = Fraction(999, 1000)
    low_ms: int = 0
    high_ms: int = 31 * DAY_MS
    unit_ms: int = DAY_MS
    probe_every: int = 14

    @property
    def is_measured(self) -> bool:
        """Return whether runs use the measured lateness of earlier rows."""
        return self.mode is GraceMode.AUTO

    def rounded(self, ms: int) -> int:
        """Return the shortest allowed grace period of at least ``ms``, else the longest one."""
        return min(max(-(-ms // self.unit_ms) * self.unit_ms, self.low_ms), self.high_ms)


@dataclass(frozen=True, slots=True)
class ProbeRest:
    """The place from which to resume a probe that the limit of work units cut off.

    ``low`` is the start of the first partition that was not read whole, epoch ms UTC. ``through``
    is the key of the last unit whose part of this partition was read, empty if no unit's was.
    """

    low: int
    through: str = ""


@dataclass(frozen=True, slots=True)
class GraceMeasure:
    """The lateness of rows that earlier runs have measured.

    ``recommended_ms`` is None while too little is measured. ``runs_since_probe`` counts the
    scheduled runs that committed since the last probe, and ``rest`` is the rest of a probe that was
    cut off, None if no probe was cut off. ``rows`` and ``commits`` are the numbers of measured rows
    and commits; a recommendation needs ``least_rows`` and ``least_commits``.
    """

    recommended_ms: int | None = None
    runs_since_probe: int = 0
    rows: int = 0
    commits: int = 0
    least_rows: int = 0
    least_commits: int = 0
    rest: ProbeRest | None = None
