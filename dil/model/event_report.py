"""The event-time part of a run's report; times in epoch ms UTC."""

from __future__ import annotations

from dataclasses import dataclass

from dil.model.event_tally import EventTally


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Counts of rows, as in ``EventTally``; ``most_late_ms`` is the largest lateness."""

    rows: int = 0
    late: int = 0
    most_late_ms: int = 0
    dropped: int = 0
    beside: int = 0
    nulls: int = 0
    refused: int = 0
    unjudged: int = 0

    def plus(self, tally: EventTally | EventCounts) -> EventCounts:
        """Return the sum of these counts and the counts of a work unit, or of a run."""
        return EventCounts(
            self.rows + tally.rows,
            self.late + tally.late,
            max(self.most_late_ms, tally.most_late_ms),
            self.dropped + tally.dropped,
            self.beside + tally.beside,
            self.nulls + tally.nulls,
            self.refused + tally.refused,
            self.unjudged + tally.unjudged,
        )


@dataclass(frozen=True, slots=True)
class EventSummary:
    """The event watermark of a job, and the counts of judged rows.

    Attributes:
        column: The event column.
        strategy: How the watermark follows the rows.
        action: What happens to late rows; empty if they are only counted.
        judged_by: The watermark that judged the rows; None while no row is late.
        watermark: The watermark now, which judges the next run.
        bound_ms: Distance of the watermark behind the largest time; None if unknown.
        phase: The source of the adaptive strategy's bound; empty for other strategies.
        partitions: Number of partitions that have had rows.
        idle: Names of partitions that the watermark does not wait for, at most 20.
        idle_partitions: Number of all idle partitions.
        counts: Counts of rows.
    """

    column: str
    strategy: str
    action: str
    judged_by: int | None
    watermark: int | None
    bound_ms: int | None
    phase: str
    partitions: int
    idle: tuple[str, ...]
    idle_partitions: int
    counts: EventCounts
