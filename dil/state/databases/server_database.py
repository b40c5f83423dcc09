"""A database server as the state store's database, over PostgreSQL's or MySQL's driver.

A write transaction first locks the job's row in ``writer``: writers of one job follow each other,
as writers of one file do on SQLite, and writers of different jobs do not meet. The row also has the
mark of the last committed transaction. If the answer to a COMMIT is lost, a new connection waits
until that transaction is over and reads the mark, which shows whether it was committed.

An upgrade locks the rows of all jobs in ``writer``, so that no job writes meanwhile. MySQL commits
each statement about tables at once: a second connection creates the copies and the new tables, and
creates them again after a crash; the format changes in the transaction itself.

A connection that was lost between two transactions is opened again, and calls wait for a server
that is restarting, or that is not yet the primary server after a failover (see ``outage``). A
connection that is lost inside a transaction is an error: no change was made, and the caller knows
how to repeat its work.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import RLock

from dil.databases.faults import AWAY, Fault
from dil.errors import CommitConflictError, CommitUnknownError, StateError
from dil.state.databases import sql, tables
from dil.state.databases.database import Allow, Database, Row, Snapshot, SqlValue, Transaction
from dil.state.databases.outage import Outage
from dil.state.databases.server_driver import CONFLICTS, ServerConnection, ServerDriver
from dil.state.databases.sqlite_database import empty_store

_BEGIN_ATTEMPTS = 5

_TAKE_TURN = "UPDATE writer SET mark = ? WHERE dataset_id = ?"
_ADD_WRITER = "INSERT INTO writer (dataset_id, mark) VALUES (?, '')"
_TAKE_ALL_TURNS = "UPDATE writer SET mark = mark"
_AWAIT_TURN = "UPDATE writer SET mark = mark WHERE dataset_id = ?"
_LAST_MARK = "SELECT mark FROM writer WHERE dataset_id = ?"
_OTHERWISE = (
    "Without a backup, give dil another database: the next run has no history and reads "
    "everything again, so move the published data away, too, or its rows are doubled."
)
_UNDONE = "Nothing of this change was recorded; run the job again."


class ServerTransaction(Snapshot):
    """Statements on one connection; ``is_change`` says that they may change rows."""

    def __init__(
        self, connection: ServerConnection, driver: ServerDriver, *, is_change: bool = False
    ) -> None:
        self._connection = connection
        self._driver = driver
        self._is_change = is_change

    def change(self, statement: str, *values: SqlValue) -> int:
        """Run an INSERT, UPDATE or DELETE and return the number of matched rows."""
        with translated(self._driver, is_change=self._is_change):
            return self._connection.change(statement, *values)

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""
        with translated(self._driver, is_change=self._is_change):
            return self._connection.rows(statement, *values)

    def close(self) -> None:
        """Close the connection, which ends its transaction."""
        self._connection.close()


class ServerDatabase(Database):
    """The tables of one database on a server, for one job.

    Nothing is created before the first write. ``job`` is the job whose row a write transaction
    locks: it only changes this job's rows.
    """

    def __init__(self, driver: ServerDriver, job: str) -> None:
        self.place = str(driver.address)
        self._driver = driver
        self._job = job
        self._lock = RLock()
        self._connection: ServerConnection | None = None
        self._is_current = False
        self._outage = Outage(str(driver.address))
        self._promotion = Outage(str(driver.address))

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Open a transaction that locks the job's row; it commits unless the block raises.

        Raises:
            CommitUnknownError: the connection was lost during COMMIT and the server did not come
                back, so it is unknown whether the transaction was committed.
        """
        with self._lock, self._answered(), translated(self._driver, is_change=True):
            mark = uuid.uuid4().hex
            try:
                connection = self._begun(mark)
                yield ServerTransaction(connection, self._driver, is_change=True)
            except BaseException:
                self._undo()
                raise
            self._commit(connection, mark)

    @contextmanager
    def upgrade(self, allow: Allow) -> Iterator[Transaction]:
        """Open a transaction that upgrades an older store, after copying all tables of all jobs."""
        with self._lock, self._answered(), translated(self._driver, is_change=True):
            mark = uuid.uuid4().hex
            is_older = False
            try:
                connection = self._begun(mark, takes_all=True)
                tx = ServerTransaction(connection, self._driver, is_change=True)
                found = connection.rows(sql.READ_FORMAT)[0][0]
                is_older = found < tables.FORMAT
                if is_older:
                    allow(tx, found)
                    connection.lift_limits()  # its transaction is idle while tables are copied
                    with closing(self._opened(may_idle=True)) as second:
                        second.lift_limits()
                        second.begin_writing()
                        _refuse_other_tables(second, found, self.place)
                        _copy_and_add(second, found)
                        second.commit()
                    tx.change(sql.CHANGE_FORMAT, tables.FORMAT)
                yield tx
            except BaseException:
                self._undo()
                raise
            else:
                self._commit(connection, mark)
            finally:
                if is_older:
                    self._drop()  # the next connection has limits again

    def copy_place(self, number: int) -> str:
        """Return the names of the tables that keep all rows in the older format."""
        return f"the tables {tables.copy_name('*', number)} in {self.place}"

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a reading transaction; a store without tables reads as an empty store."""
        with self._lock, self._answered(), translated(self._driver):
            try:
                connection = self._reading()
                if connection is not None:
                    yield ServerTransaction(connection, self._driver)
                    return
            finally:
                self._undo()
            with closing(empty_store()) as nothing:
                yield nothing

    def snapshot(self) -> Snapshot:
        """Open a separate connection, whose first read fixes the point in time."""
        with translated(self._driver):
            connection = self._own_reader()
            return empty_store() if connection is None else ServerTransaction(
                connection, self._driver
            )  # fmt: skip

    def stream(self, statement: str, *values: SqlValue) -> Iterator[Row]:
        """Yield rows from a separate connection, which is open as long as the iterator."""
        with translated(self._driver):
            connection = self._own_reader()
            if connection is None:
                return
            with closing(connection), closing(connection.stream(statement, *values)) as rows:
                yield from rows

    def close(self) -> None:
        """Close the shared connection; iterators and snapshots close their own."""
        with self._lock:
            self._drop()

    # Transactions

    def _begun(self, mark: str, *, takes_all: bool = False) -> ServerConnection:
        """Return the shared connection inside a transaction that holds the lock of the job's row.

        The caller has not run any statement yet, so temporary failures are retried. If
        ``takes_all`` is true and the store has an older format, the rows of all jobs are locked.
        """
        self._promotion.refuse()
        attempts = 1
        while True:
            try:
                connection = self._turn(mark, takes_all=takes_all)
            except self._driver.errors() as error:
                fault = self._driver.diagnose(error).fault
                self._undo()
                if self._awaits_promotion(error):
                    continue
                # An idle connection may have been lost; a new one has not.
                most = _BEGIN_ATTEMPTS if fault in CONFLICTS else 2 if fault in AWAY else 1
                if attempts >= most:
                    raise
                attempts += 1
            else:
                self._promotion.end()
                return connection

    def _turn(self, mark: str, *, takes_all: bool) -> ServerConnection:
        connection = self._connected()
        connection.begin_writing()
        if not self._is_ready(connection):
            connection.rollback()
            connection.create()
            connection.begin_writing()
            if not self._is_ready(connection):
                raise tables.refused_format(None, self.place, _OTHERWISE)
        if takes_all and not self._is_current:
            connection.change(_TAKE_ALL_TURNS)
        if connection.change(_TAKE_TURN, mark, self._job) == 0:
            connection.change(_ADD_WRITER, self._job)
            connection.commit()
            return self._turn(mark, takes_all=takes_all)
        return connection

    def _commit(self, connection: ServerConnection, mark: str) -> None:
        try:
            connection.commit()
        except self._driver.errors() as error:
            fault = self._driver.diagnose(error).fault
            self._undo()
            if fault not in AWAY or not self._has_landed(mark, error):
                raise

    def _has_landed(self, mark: str, lost: Exception) -> bool:
        """Return whether the transaction with a mark was committed before the connection broke."""
        while True:
            try:
                connection = self._connected()
                connection.begin_writing()
                connection.change(_AWAIT_TURN, self._job)
                found = connection.rows(_LAST_MARK, self._job)
                connection.rollback()
            except self._driver.errors() as error:
                self._drop()
                if self._awaits_promotion(error):
                    continue
                raise CommitUnknownError(
                    f"the state store {self._driver.address} went away while a change was committed"
                    f" ({self._driver.diagnose(lost).text}), and cannot be asked whether it landed",
                    "Bring the server back and run the job again: the next run checks it. Delete "
                    "nothing.",
                ) from error
            return found == [(mark,)]

    def _awaits_promotion(self, error: Exception) -> bool:
        """Wait a moment if the server that accepted writes was replaced by one that does not yet.

        Return whether to try again.
        """
        found = self._driver.diagnose(error)
        if found.fault is not Fault.READ_ONLY or not self._promotion.pause(error, found.text):
            return False
        self._drop()  # the proxy leads only new connections to another server
        return True

    def _undo(self) -> None:
        """End the shared connection's transaction, or close the connection."""
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except self._driver.errors():
            self._drop()

    def _reading(self) -> ServerConnection | None:
        """Return the shared connection inside a reading transaction, None if tables are missing."""
        try:
            return self._read_from(self._connected())
        except self._driver.errors() as error:
            self._drop()
            if self._driver.diagnose(error).fault not in AWAY:
                raise
        return self._read_from(self._connected())

    def _read_from(self, connection: ServerConnection) -> ServerConnection | None:
        connection.begin_reading()
        if self._is_ready(connection):
            return connection
        connection.rollback()
        return None

    def _own_reader(self) -> ServerConnection | None:
        connection = self._opened(may_idle=True)
        try:
            connection.begin_reading()
            with self._lock:
                is_ready = self._is_ready(connection)
            if is_ready:
                connection.rows(sql.READ_FORMAT)
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    # Connections

    def _connected(self) -> ServerConnection:
        if self._connection is None:
            self._connection = self._opened(may_idle=False)
        return self._connection

    def _opened(self, *, may_idle: bool) -> ServerConnection:
        """Open a connection; a server that answered before is waited for."""
        self._outage.refuse()
        while True:
            try:
                connection = self._driver.connect(may_idle=may_idle)
            except self._driver.errors() as error:
                found = self._driver.diagnose(error)
                if found.fault not in AWAY or not self._outage.pause(error, found.text):
                    raise
            else:
                self._outage.end()
                return connection

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Close the shared connection if a signal ends the block.

        An answer may be unread, which a later request would take for its own.
        """
        try:
            yield
        except KeyboardInterrupt:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_ready(self, connection: ServerConnection) -> bool:
        """Return whether the tables exist, in a readable format.

        Raises:
            StateError: the tables have another format, or are another program's.
        """
        if self._is_current:
            return True
        place = self.place
        wanted = tables.names(tables.POSTGRESQL)
        found = connection.existing(wanted)
        if wanted[0] not in found:
            if found:
                raise StateError(
                    f"{place} holds a table {min(found)} that is not of a state store of dil",
                    "Give dil a database or a schema of its own in state.store.db.url.",
                )
            return False
        formats = connection.rows(sql.READ_FORMAT)
        if not formats:
            return False  # MySQL creates tables one by one: another process is creating them
        if not tables.is_readable(formats[0][0]):
            raise tables.refused_format(formats[0][0], place, _OTHERWISE)
        # Another process may upgrade an older store, so its format is read again.
        self._is_current = formats[0][0] == tables.FORMAT
        return True


def _refuse_other_tables(connection: ServerConnection, found: int, place: str) -> None:
    """Refuse other programs' tables with the names of tables that have to be added.

    Raises:
        StateError: a table has other columns; nothing was changed.
    """
    known = {table.name for table in tables.job_tables(number=found)}
    added = {table.name: table for table in tables.job_tables() if table.name not in known}
    for name in sorted(connection.existing(added)) if added else ():
        columns = connection.columns(name)
        if sorted(columns) != sorted(added[name].columns):
            raise StateError(
                f"{place} holds a table {name} with the columns {', '.join(columns)}, which does"
                " not belong to dil, and this release needs one of that name with"
                f" {', '.join(added[name].columns)}",
                "Nothing was changed. Rename that table, or copy the state with the earlier release"
                " to a database or schema of its own.",
            )


def _copy_and_add(connection: ServerConnection, found: int) -> None:
    """Copy the tables of an older store, and create the tables that were added since.

    The format is copied last: a copy without it is incomplete. May be repeated.
    """
    column_words = connection.column_words()
    for name in reversed(tables.names(column_words, number=found)):
        copy = tables.copy_name(name, found)
        connection.change(f"DROP TABLE IF EXISTS {copy}")
        connection.change(column_words.like.format(copy=copy, table=name))
        connection.change(f"INSERT INTO {copy} SELECT * FROM {name}")
    for statement in tables.additions(column_words, found):
        connection.change(statement.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))


@contextmanager
def translated(driver: ServerDriver, *, is_change: bool = False) -> Iterator[None]:
    """Translate the driver's errors into ours; only this function does that."""
    try:
        yield
    except driver.errors() as error:
        found, place = driver.diagnose(error), f"the state store {driver.address}"
        if found.fault in CONFLICTS:
            raise CommitConflictError(
                f"another writer changed {place} first ({found.text})", _UNDONE
            ) from error
        if found.fault in AWAY:
            raise StateError(
                f"{place} cannot be reached: {found.text}",
                f"{found.advice} {_UNDONE if is_change else 'Then run the command again.'}",
            ) from error
        raise StateError(f"{place}: {found.text}", found.advice) from error
