"""Published files and their rows, and the intent by which a later run can finish a publish."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from dil.errors import StateError
from dil.model.closed_labels import ClosedLabelChanges
from dil.model.derived import QueryStep
from dil.model.job import PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import WorkUnit

OPEN_STATUSES = ("running", "failed", "interrupted")
COMPACTION = "compact"
EXPIRY = "expire"


def source_name(job: str) -> str:
    """Return the name by which blocks refer to the source of a job's work units."""
    return f"dil/{job}"


def is_compaction(act: str) -> bool:
    """Return whether an act combines small files; ``act`` is its verb, or its id.

    The id begins with the verb. It is the run id of the act's commit and of the files that the act
    wrote.
    """
    return act.partition("-")[0] == COMPACTION


class UnitRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The rows of one work unit in a shared file: ``rows`` rows, from row ``start`` on (from 0).

    In JSON this is an array of the three fields.
    """

    signature: str
    start: int
    rows: int


class PublishedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One live file of a dataset. ``uri`` is absolute (``file:///...``).

    ``signature`` is the signature of the file's work unit, empty if the file holds rows of several
    work units. ``timelabel`` is the label of the file's work unit, if the job has timelabels (rule
    T16). ``is_dump`` says that the source or the job named the file: a later file of that name
    replaces it. If several work units share the file, ``units`` has the rows of each work unit, in
    the order of the file; empty if these rows are unknown.
    """

    uri: str
    signature: str
    rows: int
    bytes: int
    sha256: str
    run_id: str
    timelabel: str | None = None
    is_dump: bool = False
    units: tuple[UnitRows, ...] = ()

    @property
    def format(self) -> str:
        """Return the extension of the file's name, such as ``parquet``; a dump may have any."""
        return self.uri.rpartition(".")[2].lower()

    @property
    def unit_rows(self) -> tuple[UnitRows, ...]:
        """Return the rows of each work unit in the file, empty if these rows are unknown.

        A file of only one work unit has one entry.
        """
        if self.units or not self.signature:
            return self.units
        return (UnitRows(self.signature, 0, self.rows),)

    @property
    def is_shared(self) -> bool:
        """Return whether several work units share the file, and the rows of each are known."""
        return bool(self.units)

    @property
    def has_unknown_units(self) -> bool:
        """Return whether several work units share the file, and the rows of each are unknown.

        A merge or an earlier release wrote such a file.
        """
        return bool(self.run_id) and not self.unit_rows

    @property
    def signatures(self) -> frozenset[str]:
        """Return the signatures of the file's work units, as far as they are known."""
        return frozenset(each.signature for each in self.unit_rows)

    def narrowed(self, signatures: Collection[str]) -> PublishedFile:
        """Return a copy of the file with only the rows of these work units."""
        units = tuple(each for each in self.units if each.signature in signatures)
        if len(units) == len(self.units):
            return self
        rows = sum(each.rows for each in units)
        return msgspec.structs.replace(self, rows=rows, units=units)


@dataclass(frozen=True, slots=True)
class FileRows:
    """``count`` rows of a file, from row ``first`` on (counted from 0).

    ``rows`` is the number of all rows of the file, as its chain records it.
    ``offset`` is the offset in the dataset of the first row taken, and ``size`` is the size of the
    file in bytes; both are 0 if they are not needed. ``timelabel`` is the file's label, None for
    none.
    """

    uri: str
    rows: int
    first: int
    count: int
    size: int = 0
    offset: int = 0
    timelabel: str | None = None

    @classmethod
    def whole(cls, uri: str, rows: int) -> FileRows:
        """Return all rows of a file."""
        return cls(uri, rows, 0, rows)


def gone_file(path: str) -> StateError:
    """Return the error for a file that left its dataset before its rows were read."""
    return StateError(
        f"{path} is gone: its rows were replaced, withdrawn or put together with others since",
        "Begin again: what begins now reads the newest rows. If the file is still missing, the job"
        " that publishes the dataset is deleting replaced files, or was killed while it did: its"
        " next run finishes that. To read as of an earlier block, choose a later one: `dil state"
        " log` shows which block removed the file.",
    )


@dataclass(frozen=True, slots=True)
class Move:
    """One staged file and its final place; a repeated move whose source is gone changes nothing."""

    source: str
    target: PublishedFile


@dataclass(frozen=True, slots=True)
class WorkUnitOutcome:
    """The new state of one work unit after a run; times epoch ms UTC.

    ``high`` is the partition's end if the work unit succeeded, else None, so that an earlier
    successful high is kept (rule P21). ``low`` is the nominal partition start.
    """

    signature: str
    unit_key: str
    low: int
    expected_high: int
    high: int | None
    attempts: int
    error: str = ""
    timelabel: str | None = None

    @classmethod
    def of(
        cls,
        unit: WorkUnit,
        *,
        high: int | None,
        attempts: int,
        error: str = "",
        unit_key: str | None = None,
    ) -> WorkUnitOutcome:
        """Return the outcome of a planned work unit.

        A caller with many outcomes passes ``unit_key``, so that those of one unit share its text.
        """
        return cls(
            signature=unit.signature,
            unit_key=unit.unit_key if unit_key is None else unit_key,
            low=unit.partition.low,
            expected_high=unit.high,
            high=high,
            attempts=attempts,
            error=error,
            timelabel=unit.timelabel,
        )

    @property
    def succeeded(self) -> bool:
        """Return whether the work unit was published."""
        return self.high is not None


@dataclass(frozen=True, slots=True)
class UnitEntry:
    """One row of the work-unit index; it may be the present, an earlier or an intended row.

    Times are epoch ms UTC; ``low`` is the nominal partition start, ``high`` is the last successful
    high watermark, None if there is none. ``status`` is COMMITTED, FAILED, SKIPPED (no run took
    place in its time), or PENDING (as if never read). ``is_on_grid`` says that [low, expected_high)
    is a partition of the job as it is configured now; other partitions do not count as covered,
    even if they succeeded.
    """

    signature: str
    low: int
    expected_high: int
    high: int | None
    status: str
    attempts: int
    is_on_grid: bool = False


@dataclass(frozen=True, slots=True)
class OperatorAct:
    """An operator's decision about the work units of a job, as one change that can be undone.

    ``verb`` and ``reason`` are kept in the chain. ``changed`` has the new index rows; rows of
    ``removed`` are removed from the index. If ``sets_watermark`` is true, ``watermark`` (epoch ms
    UTC, None for none) becomes the dataset's watermark, even if it is lower. The records of runs
    that began before the instant ``runs_before`` and left no staging are dropped.
    """

    verb: str
    reason: str
    changed: tuple[UnitEntry, ...] = ()
    removed: tuple[str, ...] = ()
    watermark: int | None = None
    sets_watermark: bool = False
    runs_before: int | None = None


@dataclass(frozen=True, slots=True)
class RunWork:
    """The results of a run for its work units.

    ``skipped`` are work units that no run reads, because no run took place in their time (rule
    T14). ``left_low`` caps the frontier: it is the earliest partition start that is due but was not
    taken, epoch ms UTC. If ``watermarks`` is False, no work-unit records are kept
    (state.store.enabled=false). ``forgotten`` are the signatures of work units whose rows the
    commit removes (rule U16): their records are removed before the outcomes are recorded, so that
    an outcome for one of them is its first.
    """

    outcomes: tuple[WorkUnitOutcome, ...] = ()
    skipped: tuple[WorkUnitOutcome, ...] = ()
    left_low: int | None = None
    watermarks: bool = True
    forgotten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """One change to a dataset and its state, by a run (``run``) or an operator (``act``).

    ``moves`` and ``removes`` are the live files that the commit adds and removes; both are empty
    for a commit that only records failures or empty work units. ``schema`` is the dataset's Arrow
    schema as JSON text, empty if nothing was written. ``horizon`` is the latest instant that a
    watermark may name: max(real clock, --now). ``quarantine`` are files of rows that were put
    aside, which are not live files; ``quarantine_removes`` are the URIs of older files of this
    kind, which the commit removes together with the rows that it replaces. ``checkpoints`` are
    members of checkpoints of the job, by kind, that are set together with the commit.
    ``closed_labels`` says which timelabels the commit closes and reopens, None if the job never
    closes any. ``late_dir`` is the URI of the folder of late rows: the block names the files of
    ``quarantine`` in this folder. It is empty for a job that puts no rows beside its dataset.
    ``query`` is the query that made the rows of a derived dataset, None for rows of a source. In
    the same way, ``changelog_dir`` is the URI of the folder of changed rows, empty if the commit
    keeps no changelog; ``begins_changelog`` says that the changelog begins with all earlier rows.
    """

    run_id: str
    config_digest: str
    source_name: str
    moves: tuple[Move, ...]
    removes: tuple[PublishedFile, ...]
    schema: str
    system_time: int
    horizon: int
    run: RunWork = RunWork()
    act: OperatorAct | None = None
    quarantine: tuple[Move, ...] = ()
    quarantine_removes: tuple[str, ...] = ()
    checkpoints: Mapping[str, JsonObject] = field(default_factory=dict)
    closed_labels: ClosedLabelChanges | None = None
    late_dir: str = ""
    query: QueryStep | None = None
    changelog_dir: str = ""
    begins_changelog: bool = False

    @property
    def is_compaction(self) -> bool:
        """Return whether the commit is a compaction; a compaction changes nothing else."""
        return self.act is not None and is_compaction(self.act.verb)

    @property
    def all_moves(self) -> tuple[Move, ...]:
        """Return the moves of live files, then the moves of files of rows that were put aside."""
        return (*self.moves, *self.quarantine)

    @property
    def leaving(self) -> frozenset[str]:
        """Return the URIs of the files that leave the dataset, or the late rows beside it."""
        return frozenset((*(file.uri for file in self.removes), *self.late_removes))

    @property
    def late_moves(self) -> tuple[Move, ...]:
        """Return the moves of files of late rows."""
        return tuple(move for move in self.quarantine if self._is_late(move.target.uri))

    @property
    def late_removes(self) -> tuple[str, ...]:
        """Return the URIs of the files of late rows that are removed.

        A file that an act moves aside keeps its name, in a folder with the same name.
        """
        if not self.late_dir:
            return ()
        folder = self.late_dir.rstrip("/")
        aside = f"/{folder.rpartition('/')[2]}/"
        uris = (move.target.uri for move in self.quarantine)
        taken = (uri for uri in uris if aside in uri and not self._is_late(uri))
        return (
            *filter(self._is_late, self.quarantine_removes),
            *(f"{folder}/{uri.rpartition('/')[2]}" for uri in taken),
        )

    @property
    def changelog_moves(self) -> tuple[Move, ...]:
        """Return the moves of files of changed rows, in their order."""
        folder = f"{self.changelog_dir.rstrip('/')}/"
        moves = self.quarantine if self.changelog_dir else ()
        return tuple(move for move in moves if move.target.uri.startswith(folder))

    @property
    def touches_late_rows(self) -> bool:
        """Return whether files of late rows are added or removed."""
        return bool(self.late_moves or self.late_removes)

    def _is_late(self, uri: str) -> bool:
        return bool(self.late_dir) and uri.startswith(f"{self.late_dir.rstrip('/')}/")


@dataclass(frozen=True, slots=True)
class Owner:
    """One job that publishes into the dataset, and the state store that keeps its watermarks."""

    job: str
    store: str
    mode: PublishMode


@dataclass(frozen=True, slots=True)
class Intent:
    """A decided commit, which any later run may finish and no run may change (rule C26).

    ``dataset_dir`` is the folder of manifests; ``sequence`` names the next manifest.
    ``destination`` has the place and the mode of publishing in words of the job, empty if an older
    version decided the commit.
    """

    commit: Commit
    token: int
    dataset_dir: str
    sequence: int
    destination: str = ""


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The holder of a lease; times epoch ms UTC of the real clock."""

    run_id: str
    host: str
    pid: int
    process_start: str
    since: int
    heartbeat: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lease with its fencing token; a larger token is newer."""

    job: str
    token: int
    holder: LeaseHolder


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One row of the runs table.

    ``status`` is running, success, failed, partial, interrupted or superseded. ``committed`` says
    that the run's staged results are published, or that there was nothing to publish; ``staged``
    says that the staging folder was not swept.
    """

    run_id: str
    job: str
    started: int
    now: int
    policy: str
    digest: str
    staging_dir: str
    status: str
    rows: int = 0
    files: int = 0
    committed: bool = False
    staged: bool = True

    @property
    def is_open(self) -> bool:
        """Return whether the run ended without a commit, so that its staged work was never used."""
        return not self.committed and self.status in OPEN_STATUSES
