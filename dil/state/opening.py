"""Opens the state store that a job's configuration names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dil.errors import ConfigError, StateError
from dil.model.database_address import Server
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state import transfer
from dil.state.databases.database import Database, Transaction
from dil.state.databases.sqlite_database import SqliteDatabase
from dil.state.store.sql_store import SqlStateStore

FILE_NAME = "state.db"


def open_store(spec: StateSpec, job_name: str, *, clock: Callable[[], int]) -> StateStore:
    """Return the store of one job; nothing is read before its first use, see ``open_database``.

    There is one exception: if ``fs.uri`` gives the job another store than before, this call reads
    both stores.

    Raises:
        StateError: no place is set, or this kind of store is unknown.
        ConfigError: the job's state is in its former store.
    """
    if spec.former is not None and Path(spec.former.directory).is_dir():
        _refuse_state_left_behind(spec, spec.former, job_name, clock)
    return SqlStateStore(open_database(spec, job_name, clock=clock), job_name, clock=clock)


def _refuse_state_left_behind(
    spec: StateSpec, former: StateSpec, job_name: str, clock: Callable[[], int]
) -> None:
    """Refuse an empty store if the former one has state: the job would read everything again."""
    if not _remembers(former, job_name, clock) or _remembers(spec, job_name, clock):
        return
    scheme, _, rest = spec.directory.partition("://")
    raise ConfigError.single(
        "state.store.dir",
        f"is {spec.directory}, from fs.uri or state.store.fs.uri. There is no state of {job_name}"
        f" there: its state is on this machine, in {former.directory}",
        "Copy it: dil state copy JOB.conf -D state.store.fs.uri=file:///"
        f" --to state.store.fs.uri={scheme}://{rest.partition('/')[0]} --yes. Or keep it there:"
        f" state.store.dir=file://{former.directory}. To start over, move that folder away.",
    )


def _remembers(spec: StateSpec, job_name: str, clock: Callable[[], int]) -> bool:
    with closing(open_database(spec, job_name, clock=clock)) as database, database.read() as tx:
        return not transfer.holdings(tx, job_name).is_empty


@contextmanager
def open_snapshot(
    spec: StateSpec, job_name: str, *, clock: Callable[[], int]
) -> Iterator[Transaction]:
    """Yield the present rows of one job's tables, for a reader; see ``open_database``.

    Raises:
        StateError: see ``open_database``; or the store cannot be read.
    """
    with (
        closing(open_database(spec, job_name, clock=clock)) as database,
        closing(database.snapshot()) as tx,
    ):
        yield tx


def open_database(spec: StateSpec, job_name: str, *, clock: Callable[[], int]) -> Database:
    """Return the tables of one job; nothing is read before their first use.

    Args:
        spec: The kind and the place of the store. ``sqlite``, and ``fs`` on a local path, are one
            SQLite file ``state.db`` in the folder, shared by all its jobs. ``noop`` keeps lease,
            intent and runs in this file, too: the caller leaves out only watermarks (rule C25).
            ``filelog`` is a tree of files that needs no locks. ``postgresql`` and ``mysql`` are
            tables in the server's database, shared by all its jobs.
        job_name: The key of the chain and of the lease.
        clock: Returns epoch ms of the real clock.

    Raises:
        StateError: no place is set, or this kind of store is unknown.
    """
    opener = _OPENERS.get(spec.kind)
    if opener is None:
        raise StateError(
            f'state.store.type "{spec.kind}" is unknown', f"Known kinds: {', '.join(_OPENERS)}."
        )
    return opener(spec, job_name, clock)


def _open_sqlite(spec: StateSpec, job_name: str, clock: Callable[[], int]) -> Database:
    del job_name, clock
    if not spec.directory:
        raise StateError("no state folder is set", "Set state.store.dir.")
    return SqliteDatabase(Path(spec.directory) / FILE_NAME)


def _open_file_log(spec: StateSpec, job_name: str, clock: Callable[[], int]) -> Database:
    from dil.state.filelog.file_log import file_log_database

    if not spec.directory:
        raise StateError("no state folder is set", "Set state.store.dir.")
    return file_log_database(spec.directory, job_name, clock=clock)


def _open_server(spec: StateSpec, job_name: str, clock: Callable[[], int]) -> Database:
    del clock
    from dil.state.databases.server_database import ServerDatabase

    if spec.server is None:
        raise StateError(
            f"no address of the {spec.kind} server that keeps the state is set",
            "Set state.store.db.url.",
        )
    if spec.server.server is Server.POSTGRESQL:
        from dil.state.databases.postgresql_database import PostgresqlDriver

        return ServerDatabase(PostgresqlDriver(spec.server), job_name)
    from dil.state.databases.mysql_database import MysqlDriver

    return ServerDatabase(MysqlDriver(spec.server), job_name)


_OPENERS: dict[str, Callable[[StateSpec, str, Callable[[], int]], Database]] = {
    "sqlite": _open_sqlite,
    "fs": _open_sqlite,
    "noop": _open_sqlite,
    "filelog": _open_file_log,
    "postgresql": _open_server,
    "mysql": _open_server,
}
