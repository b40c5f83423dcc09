"""The event-time context of tasks, and their tallies; all of it pickles.

Times are whole milliseconds since 1970-01-01T00:00:00Z. A stream, such as the rows of one device,
is called a partition in properties and docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

# The kind of the checkpoint that keeps a job's watermark.
EVENT_TIME = "event_time"


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """Rows of a work unit in a live file, or in a file of late rows beside the dataset.

    They are ``rows`` rows from row ``start`` on, counted from 0; if ``rows`` is None, they are all
    rows of the file. ``path`` is absolute.
    """

    path: str
    start: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class MeterContext:
    """Measures how late the new rows of a run come.

    ``largest`` is the largest published event time, None while there is none; ``grace_ms`` is how
    far back the run reads. ``published`` has, by signature, the published rows of each work unit,
    which are not new when they are read again. ``is_known`` says that ``published`` has all earlier
    rows, so that rows that are read again can be compared with them.
    """

    largest: int | None = None
    grace_ms: int = 0
    published: Mapping[str, tuple[PublishedRows, ...]] = field(default_factory=dict)
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class EventContext:
    """Judges the rows of a run.

    ``effective`` is the watermark that judges all rows of the run; if it is None, no row is late.
    ``known`` has the signatures of work units whose rows are not judged, because DIL itself reads
    them late. Some of these units were published before, but the plan ignores history and does not
    show it; earlier runs left the others behind. ``meter`` measures how late new rows come; it is
    None if a run cannot measure this, such as a backfill.
    """

    effective: int | None = None
    known: frozenset[str] = frozenset()
    meter: MeterContext | None = None


@dataclass(frozen=True, slots=True)
class UnitLateness:
    """The lateness of the new rows of one work unit.

    ``rows_by_edge`` counts the new rows by the buckets of ``dil.eventtime.lateness``. Lateness is
    relative to ``largest_before``, the largest event time that was published then; if it is None,
    there are no counts. ``largest`` is the largest event time of all the unit's rows.
    ``unmeasured`` counts the rows that may be new or not. ``grace_ms`` is how far back the run
    read.
    """

    largest_before: int | None = None
    largest: int | None = None
    rows_by_edge: tuple[tuple[int, int], ...] = ()
    unmeasured: int = 0
    grace_ms: int = 0


@dataclass(frozen=True, slots=True)
class EventTally:
    """The tally of the event times of one work unit.

    ``effective`` is the watermark that judged its rows; ``is_judged`` is False if all of the rows
    were read again. ``rows`` is the number of rows that have an event time and moved the watermark.
    ``nulls`` rows have no event time, ``refused`` rows were put aside because of their time, and
    ``unjudged`` rows were read again, so that they are neither late nor counted. ``late`` rows were
    late, by at most ``most_late_ms``; of them, ``dropped`` rows were left out and ``beside`` rows
    went beside the dataset. ``streams`` has the effect of each stream on the watermark, as
    ``dil.eventtime.tally`` encodes it. ``lateness`` is unset if it was not measured.
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
