"""What tasks need to judge rows by their event time, and what they found; all of it pickles.

Times are whole milliseconds since 1970-01-01T00:00:00Z. A stream is what properties and docs call a
partition: the rows of one device, say.
"""

from __future__ import annotations

from dataclasses import dataclass

# The checkpoint in which a job's watermark is kept.
EVENT_TIME = "event_time"


@dataclass(frozen=True, slots=True)
class EventContext:
    """What judges the rows of a run.

    ``effective`` is the watermark that all rows of the run are judged by, None while none is late.
    ``known`` are the signatures of work units that were published before, where the plan does not
    say so because it ignores history.
    """

    effective: int | None = None
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EventTally:
    """What the event times of one work unit come to.

    ``effective`` is the watermark that judged its rows; ``is_judged`` False says that all of them
    were read again. ``rows`` have an event time and moved the
    watermark, ``nulls`` have none, ``refused`` were put aside because of their time, and
    ``unjudged`` were read again, so that they are neither late nor counted. ``late`` of the rows
    were late, the most of them by ``most_late_ms``, ``dropped`` of these were left
    out, and ``beside`` went beside the dataset.
    ``streams`` is how each stream moves the watermark, as ``dil.eventtime.tally`` encodes it.
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
