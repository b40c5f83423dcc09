"""The report of a run; rendered by ``dil.observe``, built by ``dil.run``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dil.errors import RunInterruptedError
from dil.model.event_tally import EventTally
from dil.model.stream import MicroBatch

if TYPE_CHECKING:  # Every command imports reports; tasks would bring the whole job.
    from dil.model.task import DiscardCount, RejectCount


class RunStatus(StrEnum):
    """The outcome of a run and, through ``exit_code``, of the process (rule U24)."""

    SUCCESS = "success"
    FAILED = "failed"
    PARTIAL = "partial"
    NOTHING_DUE = "nothing_due"

    @property
    def exit_code(self) -> int:
        """Return the process exit code of this outcome; other codes come from errors."""
        return {"success": 0, "nothing_due": 0, "failed": 1, "partial": 4}[self.value]


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """``planned = succeeded + failed + adopted + not_started`` (rule U23)."""

    planned: int = 0
    succeeded: int = 0
    failed: int = 0
    adopted: int = 0
    not_started: int = 0


@dataclass(frozen=True, slots=True)
class ReportedFailure:
    """One failure; ``signature`` is None if the failure is not about one work unit.

    ``attempts`` and ``seconds`` count the attempts of the work unit in this run, and their time.
    ``begins`` is the start of the work unit's time, ISO 8601 in UTC; empty if it has none.
    """

    signature: str | None
    code: str
    error: str
    fix: str = ""
    attempts: int = 0
    seconds: float = 0.0
    begins: str = ""

    @property
    def place(self) -> str:
        """Return a text for people that names the work unit with its time, or the run."""
        if self.signature is None:
            return "the run"
        return f"{self.signature} from {self.begins}" if self.begins else self.signature


@dataclass(frozen=True, slots=True)
class UnitRun:
    """The end of one work unit in a run; ``outcome`` is succeeded, failed or adopted.

    ``attempts``, ``seconds`` and ``requests`` (all that were sent) are sums over all attempts of
    the work unit; ``code`` is the code of its failure.
    """

    signature: str
    outcome: str
    attempts: int
    seconds: float
    rows: int
    requests: int
    code: str = ""


@dataclass(frozen=True, slots=True)
class SchemaDrift:
    """One column of a run's rows that differs from the rows that were published before.

    ``change`` is added, widened, missing, or left out: a column of the source that
    ``ms.output.schema`` lacks. ``before`` and ``after`` are types, empty for none. ``advice`` is a
    sentence for people about what they may do.
    """

    column: str
    change: str
    before: str = ""
    after: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class RowsAside:
    """Rows of a run that were put aside, and values that were left out of kept rows.

    ``rows`` counts the rows that are kept in ``folder``.
    """

    rows: int = 0
    folder: str = ""
    reasons: tuple[RejectCount, ...] = ()
    discarded: tuple[DiscardCount, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The changes that merged rows made to the rows of the dataset."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def plus(self, other: MergedRows) -> MergedRows:
        """Return the sum of the counts of two runs."""
        return MergedRows(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.deleted + other.deleted,
        )


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """The numbers of new rows, and of rows that left the dataset, as far as they were counted."""

    before: int
    after: int

    def plus(self, other: ReplacedRows) -> ReplacedRows:
        """Return the sum of the counts of two runs."""
        return ReplacedRows(self.before + other.before, self.after + other.after)


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
    """The event watermark of a job, and the counts of judged rows; times are epoch ms UTC.

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


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run: printed on every exit of ``dil run``, returned by ``dil.api.run``.

    Attributes:
        job: ``job.name``.
        run_id: Identity of the run; empty if no run had begun.
        status: success, failed, partial or nothing_due.
        units: Counts of work units.
        rows: Number of rows that became visible.
        bytes: Size in bytes of the files that became visible.
        files: Absolute URIs of the files that became visible; empty for warehouses.
        failures: The failures of work units, and of the run itself.
        seconds: Duration of the run.
        dataset_dir: Folder or URI of the dataset.
        relation: Table or view of a database that has the rows, empty for files.
        database: The database's address, without user and password, empty for files.
        is_backfill: Whether the rows were kept in a folder beside the dataset.
        left: Number of work units that are due beyond the limit of one run.
        recovered: Run ids of earlier runs that this run finished or adopted first.
        notes: Sentences for people: warnings, zero rows although rows were usual.
        requests: Number of requests that all attempts sent to the source, repeated ones included.
        rows_read: Number of rows that the source gave, or that the query read from its inputs.
        rows_dropped: Number of rows that conversion left out.
        is_validation: Whether the job validates rows and writes none.
        retries: Number of retries after a failure: attempts of work units after the first, and
            requests that a session sent again.
        peak_rss_bytes: Largest memory of a worker process.
        forced_exit_code: Exit code that a signal or an error decides, else None.
        aside: Rows and values that a schema contract or a receiver refused.
        drift: Columns that differ from the rows that were published before.
        unit_runs: The ends of work units: failed units first, then the slowest; bounded in number.
        merged: The counts of a merge, None for other publish modes, or if the merge was not
            counted.
        replaced: The counts of replaced rows, None for modes that replace none.
        events: The event watermark and its counts; None if the job has no event column, or if
            nothing was published.
        rows_beside: Number of rows that were published beside the dataset: late rows, and rows for
            closed timelabels.
        batch: The micro-batch of a stream, or the last one of a whole stream; None for other runs.
        is_recorded: Whether the state has the ends of all work units, also of failed ones.
    """

    job: str
    run_id: str
    status: RunStatus
    units: UnitCounts
    rows: int = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    failures: tuple[ReportedFailure, ...] = ()
    seconds: float = 0.0
    dataset_dir: str = ""
    relation: str = ""
    database: str = ""
    is_backfill: bool = False
    left: int = 0
    recovered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    requests: int = 0
    rows_read: int = 0
    rows_dropped: int = 0
    is_validation: bool = False
    retries: int = 0
    peak_rss_bytes: int = 0
    forced_exit_code: int | None = None
    aside: RowsAside = RowsAside()
    drift: tuple[SchemaDrift, ...] = ()
    unit_runs: tuple[UnitRun, ...] = ()
    merged: MergedRows | None = None
    replaced: ReplacedRows | None = None
    events: EventSummary | None = None
    rows_beside: int = 0
    batch: MicroBatch | None = None
    is_recorded: bool = False

    @property
    def is_interrupted(self) -> bool:
        """Return whether a signal ended the run."""
        return any(one.code == RunInterruptedError.code for one in self.failures)

    @property
    def exit_code(self) -> int:
        """Return the exit code of the process."""
        if self.forced_exit_code is not None:
            return self.forced_exit_code
        return self.status.exit_code
