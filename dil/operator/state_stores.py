"""Operators' acts on a job's state store as a whole: upgrade, back up, restore, copy.

Each verb has a preview function, which only describes the act, and a function that acts.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dil.errors import ConfigError, StateError
from dil.model.dataset import Lease
from dil.model.job import Job
from dil.operator.session import unfinished_publish
from dil.run.lease import leased, new_run_id
from dil.state import transfer
from dil.state.databases import tables
from dil.state.databases.database import Database
from dil.state.databases.sqlite_database import SqliteDatabase
from dil.state.opening import open_database, open_store
from dil.state.store.sql_store import SqlStateStore
from dil.state.transfer import StoredState
from dil.storage import LocalFilesystem

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class UpgradePreview:
    """A store's format, and the place for a copy of the store before its upgrade.

    ``copy`` is that place, empty if the store needs no upgrade.
    """

    place: str
    format: int
    copy: str
    jobs: tuple[str, ...]
    to: int = tables.FORMAT


@dataclass(frozen=True, slots=True)
class TransferPreview:
    """The state that would be copied to another place, and the state that it would replace."""

    source: str
    target: str
    moved: StoredState
    replaced: StoredState


def preview_upgrade(job: Job, clock: Clock) -> UpgradePreview:
    """Describe an upgrade of the job's store."""
    with closing(open_database(job.state, job.name, clock=clock)) as database:
        with database.read() as tx:
            found, jobs = transfer.holdings(tx, job.name).format, tuple(transfer.jobs_in(tx))
        copy = database.copy_place(found) if found < tables.FORMAT else ""
        return UpgradePreview(database.place, found, copy, jobs)


def upgrade(job: Job, clock: Clock) -> None:
    """Keep a copy of the job's store, and bring the store to the format of this release.

    Raises:
        LeaseHeldError: the job, or another job of the store, is running.
        StateError: the store cannot be copied; it is unchanged.
    """
    with open_store(job.state, job.name, clock=clock) as store:
        run_id = f"upgrade-{new_run_id(clock())}"
        store.release_lease(store.acquire_lease(run_id, lease_s=job.running.lease_s, upgrade=True))


def preview_backup(job: Job, file: Path, clock: Clock) -> TransferPreview:
    """Describe a backup.

    Raises:
        ConfigError: there is nothing to back up, or the file exists.
    """
    if file.exists():
        raise ConfigError.single(
            "FILE", f"{file} exists already", "Name a new file: backups are never overwritten."
        )
    with closing(open_database(job.state, job.name, clock=clock)) as database:
        found = _holdings(database, job.name)
        _require_state(found, job.name, database.place)
        nothing = StoredState(tables.FORMAT, {}, None, None, None)
        return TransferPreview(database.place, str(file), found, nothing)


def back_up(job: Job, file: Path, clock: Clock) -> None:
    """Write the state of a job to an SQLite file; the job may run meanwhile.

    Raises:
        StateError: the store or the file refused.
    """
    with closing(open_database(job.state, job.name, clock=clock)) as database:
        _write_backup(database, job, file, clock)


def preview_restore(job: Job, file: Path, clock: Clock) -> TransferPreview:
    """Describe the job's state in a file, and the state that it would replace.

    Raises:
        ConfigError: the file does not exist, cannot be read, or has no state of the job.
        StateError: the file has a newer format, or a publish is unfinished.
    """
    if not file.is_file():
        raise ConfigError.single(
            "FILE", f"{file} does not exist", "`dil state backup` writes such a file."
        )
    with (
        closing(SqliteDatabase(file)) as saved,
        closing(open_database(job.state, job.name, clock=clock)) as database,
    ):
        try:
            found = _holdings(saved, job.name)
        except StateError as error:
            if not isinstance(error.__cause__, sqlite3.DatabaseError):
                raise
            raise ConfigError.single(
                "FILE",
                f"{file} cannot be read: {error.__cause__}",
                "Name a complete file of `dil state backup`; the store of the job is unchanged.",
            ) from error
        if found.is_empty:
            with saved.read() as tx:
                others = ", ".join(transfer.jobs_in(tx)) or "no job"
            raise ConfigError.single(
                "FILE", f"{file} has no state of {job.name}", f"It has the state of {others}."
            )
        there = _holdings(database, job.name)
        _refuse_to_forget_publish(job, saved, there)
        return TransferPreview(str(file), database.place, found, there)


def restore(job: Job, file: Path, clock: Clock) -> Path | None:
    """Replace the job's state in its store by the state in a file.

    Returns:
        The path of the backup of the replaced state, next to the file; None if none was replaced.

    Raises:
        LeaseHeldError: a run is under way.
        StateError: nothing was changed.
    """
    act = f"restore-{new_run_id(clock())}"
    kept = file.with_name(f"before-{act}.db")
    with (
        closing(SqliteDatabase(file)) as saved,
        closing(open_database(job.state, job.name, clock=clock)) as database,
        _one_lease(database, job, act, clock) as lease,
    ):
        there = _holdings(database, job.name)
        _refuse_to_forget_publish(job, saved, there)
        is_replacing = not there.is_empty
        if is_replacing:
            _write_backup(database, job, kept, clock)
        database.set_chain_aside(f"before-{act}")
        _replace(saved, database, job.name, lease)
    return kept if is_replacing else None


def preview_copy(job: Job, other: Job, clock: Clock) -> TransferPreview:
    """Describe a copy of the job's state to another store.

    ``other`` is the same job with a configuration that names the other store.

    Raises:
        ConfigError: both stores are one, there is nothing to copy, or the other store already has
            state of the job.
    """
    with (
        closing(open_database(job.state, job.name, clock=clock)) as database,
        closing(open_database(other.state, other.name, clock=clock)) as target,
    ):
        if database.place == target.place:
            raise ConfigError.single(
                "--to", f"names the store that {job.name} uses already: {target.place}",
                "Give the state.store properties of another one.",
            )  # fmt: skip
        found, there = _holdings(database, job.name), _holdings(target, job.name)
        _require_state(found, job.name, database.place)
        if not there.is_empty:
            raise ConfigError.single(
                "--to", f"{target.place} already has state of {job.name}",
                "Name a store without state of the job. To replace that state, use `dil state "
                "backup` here"
                " and `dil state restore` there.",
            )  # fmt: skip
        return TransferPreview(database.place, target.place, found, there)


def copy(job: Job, other: Job, clock: Clock) -> None:
    """Copy the state of a job to another store.

    ``other`` is the same job with a configuration that names the other store.

    Raises:
        LeaseHeldError: a run is active in one of the stores.
        StateError: nothing was copied.
    """
    with (
        closing(open_database(job.state, job.name, clock=clock)) as database,
        closing(open_database(other.state, other.name, clock=clock)) as target,
        leased(job, SqlStateStore(database, job.name, clock=clock), "copy", clock),
        _one_lease(target, job, f"copy-{new_run_id(clock())}", clock) as lease,
    ):
        if not _holdings(target, job.name).is_empty:
            raise StateError(
                f"{target.place} already has state of {json.dumps(job.name)}", "Nothing was copied."
            )
        _replace(database, target, job.name, lease)


def _holdings(database: Database, job: str) -> StoredState:
    with database.read() as tx:
        return transfer.holdings(tx, job)


def _require_state(found: StoredState, job: str, place: str) -> None:
    if found.is_empty:
        raise ConfigError.single(
            "JOB.conf", f"{place} has no state of {job}", "The first run makes its state."
        )


def _refuse_to_forget_publish(job: Job, saved: Database, there: StoredState) -> None:
    """Refuse to replace the intent of a begun publish: its visible rows would be published again.

    A backup is accepted if it has the same intent, or the commit that ended the publish.
    """
    if there.unfinished is None:
        return
    with saved.read() as tx:
        if not transfer.remembers_publish(tx, job.name, there.unfinished):
            raise unfinished_publish(job, there.unfinished)


@contextlib.contextmanager
def _one_lease(database: Database, job: Job, run_id: str, clock: Clock) -> Iterator[Lease]:
    """Hold the job's lease for one transaction, which itself releases the lease at its end.

    If the transaction fails, the lease is released here.
    """
    store = SqlStateStore(database, job.name, clock=clock)
    lease = store.acquire_lease(run_id, lease_s=job.running.lease_s, upgrade=True)
    try:
        yield lease
    except BaseException:
        with contextlib.suppress(StateError):
            store.release_lease(lease)
        raise


def _replace(source: Database, target: Database, job: str, lease: Lease) -> None:
    with closing(source.snapshot()) as found, target.write() as tx:
        transfer.replace_job(found, tx, job, lease)


def _write_backup(database: Database, job: Job, file: Path, clock: Clock) -> None:
    """Write a backup file completely, or not at all."""
    unfinished = file.with_name(f"{file.name}.tmp")
    for ending in ("", "-wal", "-shm"):
        unfinished.with_name(unfinished.name + ending).unlink(missing_ok=True)
    with closing(SqliteDatabase(unfinished)) as target:
        lease = SqlStateStore(target, job.name, clock=clock).acquire_lease("backup", lease_s=60)
        _replace(database, target, job.name, lease)
    try:
        unfinished.replace(file)
        LocalFilesystem().sync_folders([str(file.absolute().parent)])
    except OSError as error:
        raise StateError(
            f"the backup {file} cannot be written: {error.strerror}", "Name another file."
        ) from error
