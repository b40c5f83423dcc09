"""The event-time context of tasks, and their tallies; all of it pickles.

Times are whole milliseconds since 1970-01-01T00:00:00Z. A stream is what properties and docs call a
partition: the rows of one device, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

# The checkpoint in which a job's watermark is kept.
EVENT_TIME = "event_time"


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """Rows of a work unit in a file that is live, or of late rows beside the dataset.

    They are ``rows`` from row ``start`` on, from 0; None for all that there are. ``path`` is
    absolute.
    """

    path: str
    start: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class MeterContext:
    """Measures how late the new rows of a run come.

    ``largest`` is the largest event time that is published, None while there is none, and
    ``grace_ms`` how far back the run reads. ``published`` are by signature the rows among which
    those of a work unit are not new; ``is_known`` says that they are all that was published before,
    so that what is read again can be compared.
    """

    largest: int | None = None
    grace_ms: int = 0
    published: Mapping[str, tuple[PublishedRows, ...]] = field(default_factory=dict)
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class EventContext:
    """Judges the rows of a run.

    ``effective`` is the watermark that all rows of the run are judged by, None while none is late.
    ``known`` are the signatures of work units that were published before, where the plan does not
    say so because it ignores history, and of those that runs left behind: their rows are not late
    because we read them late. ``meter`` measures how late new rows come, None if a run
    says nothing about that, as a backfill.
    """

    effective: int | None = None
    known: frozenset[str] = frozenset()
    meter: MeterContext | None = None


@dataclass(frozen=True, slots=True)
class UnitLateness:
    """How late the new rows of one work unit came.

    ``rows_by_edge`` counts them by the buckets of ``dil.eventtime.lateness``; it is relative to
    ``largest_before``, the largest event time that was published then, and empty if there was
    none. ``largest`` is that of all of its rows. Of ``unmeasured`` rows it is not known whether
    they are new. ``grace_ms`` is how far back the run read.
    """

    largest_before: int | None = None
    largest: int | None = None
    rows_by_edge: tuple[tuple[int, int], ...] = ()
    unmeasured: int = 0
    grace_ms: int = 0


@dataclass(frozen=True, slots=True)
class EventTally:
    """The sum of the event times of one work unit.

    ``effective`` is the watermark that judged its rows; ``is_judged`` False says that all of them
    were read again. ``rows`` have an event time and moved the
    watermark, ``nulls`` have none, ``refused`` were put aside because of their time, and
    ``unjudged`` were read again, so that they are neither late nor counted. ``late`` of the rows
    were late, the most of them by ``most_late_ms``, ``dropped`` of these were left
    out, and ``beside`` went beside the dataset.
    ``streams`` is how each stream moves the watermark, as ``dil.eventtime.tally`` encodes it.
    ``lateness`` is unset if it was not measured.
    """

    effective: int | None = None
    rows: int = 0
    nulls: int = 0
    refused: int = 0
    unjudged: int = 0
    late: int = 0
    most_late_ms: int = 0
    dropped: int = 0
    beside: int = 0
    streams: bytes = b""
    is_judged: bool = True
    lateness: UnitLateness | UnsetType = UNSET
