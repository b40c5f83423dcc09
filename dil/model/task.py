"""The input of a task and its result; everything here pickles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from dil.errors import DilError
from dil.model.closed_labels import ClosedLabels, ClosedRows
from dil.model.event_tally import EventContext, EventTally
from dil.model.job import Job
from dil.model.secondary import SecondaryVariables


@dataclass(frozen=True, slots=True)
class CoordinatorAddress:
    """The address of the driver's coordinator, and the key that proves that a task belongs to it.

    ``tasks`` is how many tasks run at once: each task takes its share if the driver does not
    answer.
    """

    host: str
    port: int
    key: bytes = field(repr=False)
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class TaskLogging:
    """How tasks log: from which level on, and whether each line is JSON.

    If ``shows_requests`` is true, each request is logged also as a curl line.
    """

    level: str = "WARNING"
    is_json: bool = False
    shows_requests: bool = False


@dataclass(frozen=True, slots=True)
class RunContext:
    """The values that all tasks of a run share; they are sent to the executors once.

    ``run_now`` is the run's one value of now, epoch ms UTC. ``staging_dir`` is the run's absolute
    staging folder; each attempt makes a folder of its own in it. ``secondary`` are the variables
    that secondary input gives. ``coordinator`` is the driver's address, None if the tasks share
    nothing. ``known_schema`` is the dataset's schema as published so far, one line a column, empty
    if there is none. ``resume_from`` are folders of earlier attempts by signature; the pages there
    are not read again. Empty text as a folder means that the pages are too old to resume from.
    ``events`` judges rows by their event time, None for a job without event column.
    ``closed_labels`` are the closed timelabels, None if rows for a closed label are published like
    other rows.
    """

    job: Job
    run_id: str
    run_now: int
    full_extract: bool
    staging_dir: str
    secondary: SecondaryVariables = field(default_factory=SecondaryVariables)
    logging: TaskLogging = TaskLogging()
    coordinator: CoordinatorAddress | None = None
    known_schema: str = ""
    resume_from: Mapping[str, str] = field(default_factory=dict)
    events: EventContext | None = None
    closed_labels: ClosedLabels | None = None


@dataclass(frozen=True, slots=True)
class AttemptId:
    """The identity of an attempt: job, run, work unit, and ``number``, which counts from 1.

    ``unit_hash`` is the short form of ``signature`` that names files.
    """

    job: str
    run_id: str
    signature: str
    unit_hash: str
    number: int


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One finished file of an attempt. ``path`` is absolute.

    ``name`` is the path of a dumped file below ``data.publisher.final.dir``; files of rows get
    their names when they are published. ``folder`` is the folder of a file of rows below the run's
    output folder. ``timelabel`` is the label of its rows, if labels separate the rows.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    name: str = ""
    folder: str = ""
    timelabel: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a work unit: its stable code, a message without secrets, and what to do.

    ``retryable`` says whether another attempt may heal it.
    """

    code: str
    error: str
    retryable: bool = False
    fix: str = ""

    @classmethod
    def of(cls, error: DilError) -> Failure:
        """Return the failure that one of our own errors means."""
        return cls(error.code, error.message, error.retryable, error.fix)


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one attempt; ``seconds_waited`` is the time of pacing, intervals and retries.

    ``bytes_read`` counts bytes as received. ``requests`` counts all sent requests, ``resent`` the
    requests among them that repeat a failed one. ``resent`` is unset if no request was repeated, so
    that stored results leave it out, as earlier releases did.
    """

    requests: int = 0
    pages: int = 0
    rows_read: int = 0
    rows_written: int = 0
    rows_dropped: int = 0
    bytes_read: int = 0
    warnings: int = 0
    seconds: float = 0.0
    seconds_waited: float = 0.0
    peak_rss_bytes: int = 0
    resent: int | UnsetType = UNSET

    @property
    def requests_resent(self) -> int:
        """Return ``resent`` as a number, 0 if it is unset."""
        return self.resent or 0


@dataclass(frozen=True, slots=True)
class RejectCount:
    """Rows of one work unit or run that were put aside for one reason."""

    column: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class DiscardCount:
    """Values of one column that were left out while their rows were kept."""

    column: str
    values: int


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """The number of payload rows whose response had one status other than success.

    If ``is_kept`` is true, the receiver refused the rows, and they were put aside. If it is false,
    the job counts the status as a warning.
    """

    status: int
    rows: int
    is_kept: bool


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The outcome of one work unit: staged files, or a failure.

    ``quarantined`` are the staged files of rows that were put aside, ``rejects`` counts these rows
    by reason, and ``discarded`` counts the values that were left out of kept rows. ``refused`` are
    the staged files of payload rows that the receiver refused, and ``answers`` counts the payload
    rows whose status was not success. ``events`` is the tally of event times. ``late`` are the
    staged files of late rows, which go beside the dataset; ``closed`` are the rows among them that
    came for closed timelabels. ``events``, ``late`` and ``closed`` are unset for a job without
    them, so that stored results leave them out. ``left_out`` are the columns of the source that
    ``ms.output.schema`` leaves out; it is also unset if there are none. ``first_rows`` is a
    checksum of the first rows as the source gave them, unset if there were fewer than two.
    ``short_of`` is the page size that was asked for, if all rows came on a page of fewer and
    nothing shows that the source had no more; else unset.
    """

    signature: str
    low: int
    high: int
    attempts: int
    files: tuple[StagedFile, ...] = ()
    schema: str = ""
    counters: Counters = field(default_factory=Counters)
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    adopted: bool = False
    quarantined: tuple[StagedFile, ...] = ()
    rejects: tuple[RejectCount, ...] = ()
    discarded: tuple[DiscardCount, ...] = ()
    refused: tuple[StagedFile, ...] = ()
    answers: tuple[AnswerCount, ...] = ()
    events: EventTally | UnsetType = UNSET
    late: tuple[StagedFile, ...] | UnsetType = UNSET
    left_out: tuple[str, ...] | UnsetType = UNSET
    closed: ClosedRows | UnsetType = UNSET
    first_rows: int | UnsetType = UNSET
    short_of: int | UnsetType = UNSET

    @property
    def beside(self) -> int:
        """Return the number of rows in the staged files of late rows."""
        return 0 if self.late is UNSET else sum(file.rows for file in self.late)

    @property
    def rows(self) -> int:
        """Return the number of rows in the staged files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Return the size of the staged files in bytes."""
        return sum(file.bytes for file in self.files)
