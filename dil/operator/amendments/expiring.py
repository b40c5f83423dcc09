"""The verb ``expire``: deletes published files that are older than ``ms.retention`` allows.

A file is as old as the block of the chain that added it. If a run or `dil compact` writes the rows
again, their file is new. One commit removes the files from the dataset. No copy is kept, because a
copy would keep the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dil.config.state import PUBLISHED, RETENTION, StateSection
from dil.errors import ConfigError, StateError, WriteError
from dil.model.dataset import EXPIRY, PublishedFile, UnitEntry
from dil.model.destination import TableFormat
from dil.model.job import Job, PublishingSpec, PublishMode
from dil.observe.progress import counted
from dil.operator.amendments.applying import require_applicable
from dil.operator.amendments.files import NO_FILES, FileChange
from dil.operator.amendments.preview import Preview, preview_of
from dil.operator.session import OperatorSession
from dil.publishing.layout import dataset_dir
from dil.publishing.manifest import live_files
from dil.publishing.own_folders import is_inside, outside_files_of
from dil.spi.state_store import StateStore
from dil.state.amendments.operations import Proposal
from dil.state.blocks.canonical import system_time_text
from dil.storage import Filesystem, filesystem_for

_DELETED = "deleted from the dataset for good"
_TAKEN_OUT = (
    "removed from the table for good; for readers of earlier versions they stay until `dil"
    " compact JOB.conf --vacuum-hours N` or the table's own maintenance deletes them"
)


@dataclass(frozen=True, slots=True)
class DueFiles:
    """The published files that are older than the job's retention allows.

    ``files`` are live, and are in the dataset's folder. ``strays`` say why other live files stay.
    ``elsewhere`` are URIs in the chain that are not in the dataset's folder, because the dataset
    was moved.
    """

    files: tuple[PublishedFile, ...]
    strays: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def due_files(
    job: Job, live: Iterable[PublishedFile], old: frozenset[str], filesystem: Filesystem
) -> DueFiles:
    """Return the live files of the dataset that are old enough to be deleted.

    Args:
        job: The job.
        live: The dataset's live files.
        old: The URIs of files that were published long enough ago (``published_until``).
        filesystem: Where the dataset is.
    """
    files = tuple(file for file in live if file.uri in old)
    strays = {
        each.uri: str(each)
        for each in outside_files_of(files, job.publishing, job.name, filesystem)
    }
    missing = old.difference(file.uri for file in files)
    return DueFiles(
        files=tuple(file for file in files if file.uri not in strays),
        strays=tuple(strays.values()),
        elsewhere=tuple(sorted(_elsewhere(missing, job.publishing, filesystem))),
    )


def published_until(store: StateStore, instant: int) -> frozenset[str]:
    """Return the URIs of files that were live at an instant (epoch ms UTC).

    Raises:
        StateError: the chain is damaged.
    """
    sequence = store.sequence_as_of(instant)
    return frozenset() if sequence is None else frozenset(store.live_uris(until=sequence))


@dataclass(frozen=True, slots=True)
class ExpiringFiles:
    """How much `dil state expire` would delete.

    The files were published until ``published_until`` (epoch ms UTC).
    """

    files: int
    bytes: int
    published_until: int


def expiring_files(job: Job, store: StateStore, now_ms: int) -> ExpiringFiles | None:
    """Return how much is due for deletion, None if nothing is; opens no table.

    If the dataset is a table, the files of its manifest count: those are of the last publish.

    Raises:
        StateError: the chain or the manifest is damaged.
        WriteError: the dataset cannot be read.
    """
    period, spec = _period_of(job), job.publishing
    if period is None or not job.state.enabled or _refusal_of(spec) is not None:
        return None
    before = now_ms - period
    old = published_until(store, before)
    if not old:
        return None
    filesystem = filesystem_for(spec.final_dir)
    live = live_files(filesystem, dataset_dir(spec))
    due = due_files(job, live, old, filesystem).files
    return ExpiringFiles(len(due), sum(file.bytes for file in due), before) if due else None


def _period_of(job: Job) -> int | None:
    """Return how long published files are kept, in ms; None if no period is set."""
    return job.properties.section(StateSection).retention.get(PUBLISHED)


def _refusal_of(spec: PublishingSpec) -> StateError | None:
    """Return why nothing may be deleted by age, else None: old files may have current rows."""
    if not spec.keeps_files:
        return StateError(
            "rows were loaded into a database, and the chain does not know which rows are old",
            "Delete old rows in the database. Timelabel tables have ms.timeseries.retention.",
        )
    if spec.mode in (PublishMode.APPEND, PublishMode.WINDOW_REPLACE):
        return None
    return StateError(
        f"ms.publish.mode is {spec.mode.value}: old files hold rows that still are the newest"
        " of their key or snapshot",
        "Nothing was changed: retention is for append and window_replace.",
    )


def propose_expiry(session: OperatorSession) -> Preview:
    """Propose to delete published files that are older than ``publish.dir`` of ms.retention.

    The work units of the files stay committed: no run reads them again because of the deletion.

    Raises:
        ConfigError: no period is set.
        StateError: rows are merged or replaced as a whole, or are in a database; or the files may
            not be deleted.
        WriteError: the destination would refuse the deletion.
    """
    job, filesystem = session.job, session.filesystem
    period = _period_of(job)
    if period is None:
        raise ConfigError.single(
            RETENTION,
            f"names no {PUBLISHED}: published rows are kept for ever",
            f'Set {RETENTION}={{"{PUBLISHED}": "P731D"}}, the period that you want.',
            job.properties.origin(RETENTION),
        )
    spec = job.publishing
    refusal = _refusal_of(spec)
    if refusal is not None:
        raise refusal
    before = session.now_ms - period
    destination = session.publisher.destination
    due = due_files(job, destination.live(), published_until(session.store, before), filesystem)
    stuck = destination.unremovable([file.uri for file in due.files])
    old = tuple(file for file in due.files if file.uri not in stuck)
    kept = tuple(file for file in due.files if file.uri in stuck)
    notes = (
        f"published up to {system_time_text(before)}, {PUBLISHED} of {RETENTION} ago",
        *_warnings(due, kept, spec),
    )
    fate = _DELETED if spec.table.format is TableFormat.FILES else _TAKEN_OUT
    files = FileChange(old, fate, withdrawn=old, is_final=True) if old else NO_FILES
    # Names of shared files name no work unit, so the act names the work units of the files.
    signatures = {signature for file in old for signature in file.signatures}
    named: tuple[UnitEntry, ...] = ()
    if signatures:
        entries = session.store.unit_entries()
        named = tuple(entry for entry in entries if entry.signature in signatures)
    preview = preview_of(session, Proposal(EXPIRY, notes=notes, named=named), files)
    require_applicable(session, preview)
    return preview


def _warnings(due: DueFiles, stuck: Sequence[PublishedFile], spec: PublishingSpec) -> Iterator[str]:
    """Yield a warning for old files that would stay, with the reason and what to do."""
    if stuck:
        rows = sum(file.rows for file in stuck)
        yield (
            f"WARNING: {counted(len(stuck), 'file')} with {counted(rows, 'row')} old enough would"
            f" stay, such as {stuck[0].uri}: another program marked rows of this file as deleted, "
            "in a"
            f" {spec.table.format} table with features that dil does not know. Let that program "
            "delete the other rows of the file"
        )
    if due.strays:
        yield (
            f"WARNING: {counted(len(due.strays), 'file')} old enough would stay: {due.strays[0]}."
            " If the dataset was moved, move it back, then expire again"
        )
    if due.elsewhere:
        yield (
            f"WARNING: {counted(len(due.elsewhere), 'file')} old enough are recorded in another"
            f" place and would stay: {due.elsewhere[0]}. If the dataset was moved, `dil state "
            "relist` records its files at their new place, and their age counts from then on; "
            "else delete the files yourself"
        )


def _elsewhere(uris: Iterable[str], spec: PublishingSpec, filesystem: Filesystem) -> Iterator[str]:
    """Yield the URIs that are not in the dataset's folder."""
    folder = dataset_dir(spec)
    here = f"{filesystem.uri(folder).rstrip('/')}/"
    inside: dict[str, bool] = {}
    for uri in uris:
        above = uri.rpartition("/")[0]
        if above not in inside:
            inside[above] = uri.startswith(here) or _is_below(uri, folder, filesystem)
        if not inside[above]:
            yield uri


def _is_below(uri: str, folder: str, filesystem: Filesystem) -> bool:
    try:
        return is_inside(filesystem.path_of(uri), folder, filesystem)
    except (ValueError, WriteError):  # the URI is of another store
        return False
