"""Counts the rows that a store keeps of one job, and copies them to another store of any kind.

Rows are copied table by table in one transaction of the target, and read back before it commits. A
lease belongs to its store and is not copied. But the target's token becomes at least as large as
the source's, so that the next run's token is larger than both, because tokens only grow.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from dil.errors import StateError
from dil.model.dataset import Lease
from dil.state.databases import sql, tables
from dil.state.databases.database import Row, Transaction
from dil.state.databases.tables import JobTable
from dil.state.runs import details, leases

_COUNT = "SELECT COUNT(*) FROM {} WHERE dataset_id = ?"


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state of one job: rows by table, the newest block, an unfinished publish."""

    format: int
    rows: dict[str, int]
    head: int | None
    head_hash: str | None
    unfinished: str | None

    @property
    def is_empty(self) -> bool:
        """Return whether the store has no state of the job."""
        return not any(self.rows.values())


def holdings(tx: Transaction, job: str) -> StoredState:
    """Return the numbers of rows that a store has of a job."""
    number = details.format_of(tx)
    head, intent = tx.row(sql.HEAD, job), tx.row(sql.INTENT_OF, job)
    return StoredState(
        number,
        {
            table.name: tx.rows(_COUNT.format(table.name), job)[0][0]
            for table in tables.job_tables(number=number)
        },
        None if head is None else int(head[4]),
        None if head is None else str(head[0]),
        None if intent is None else str(intent[0]),
    )


def remembers_publish(tx: Transaction, job: str, run_id: str) -> bool:
    """Return whether a store has the intent of a run's publish, or the commit that finished it."""
    intent = tx.row(sql.INTENT_OF, job)
    has_begun = intent is not None and intent[0] == run_id
    return has_begun or tx.row(sql.COMMITTED, job, run_id) is not None


def jobs_in(tx: Transaction) -> list[str]:
    """Return the names of the jobs whose state a store has."""
    return [str(name) for (name,) in tx.rows("SELECT dataset_id FROM lease ORDER BY dataset_id")]


def replace_job(source: Transaction, target: Transaction, job: str, lease: Lease) -> None:
    """Replace a job's rows in ``target`` by its rows in ``source``, and end the lease.

    ``lease`` is the target's lease. No row of another job changes.

    Raises:
        LeaseLostError: another run took the lease.
        StateError: the rows read back from the target differ from the source's.
    """
    leases.require_newest(target, job, lease)
    known = {table.name for table in tables.job_tables(number=details.format_of(source))}
    for table in tables.job_tables():
        target.change(f"DELETE FROM {table.name} WHERE dataset_id = ?", job)  # noqa: S608 - ours
        if table.name not in known:
            continue
        places = ", ".join("?" * len(table.columns))
        add = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})"  # noqa: S608
        for row in _rows(source, table, job):
            target.change(add, *row)
        if list(_rows(target, table, job)) != list(_rows(source, table, job)):
            raise StateError(
                f"the rows of {table.name} of job {json.dumps(job)} differ from the rows that were "
                "written",
                "Nothing was changed. Check the server's log.",
            )
    other = source.row(sql.LEASE, job)
    token = max(lease.token, 0 if other is None else other[0])
    target.change(sql.HAND_OVER_LEASE, token, job, lease.token)


def _rows(tx: Transaction, table: JobTable, job: str) -> Iterator[Row]:
    """Yield the rows of a job in the order of their key, in a form that every store takes."""
    columns, key = ", ".join(table.columns), ", ".join(table.key)
    statement = f"SELECT {columns} FROM {table.name} WHERE dataset_id = ? ORDER BY {key}"  # noqa: S608
    is_text = [column not in table.blobs for column in table.columns]
    for row in tx.rows(statement, job):
        yield tuple(map(_portable, row, is_text))


def _portable(value: object, is_text: bool) -> object:  # noqa: FBT001 - a column of flags
    """Return a value in the form of servers with typed columns."""
    if is_text and isinstance(value, bytes):
        # SQLite keeps a long text as a BLOB. A damaged text is copied unchanged, or refused.
        with contextlib.suppress(UnicodeDecodeError):
            value = value.decode()
    # PostgreSQL allows no NUL in texts, such as messages that quote a source.
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value
