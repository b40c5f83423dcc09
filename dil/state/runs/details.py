"""JSON documents beside the chain, by kind: details of a run and checkpoints of a job.

A new kind needs no new table and no new format. A reader ignores kinds and members of a checkpoint
that it does not know.
"""

from __future__ import annotations

import json

from dil.errors import StateError
from dil.model.json import JsonObject, compact, read_number
from dil.state.databases import sql
from dil.state.databases.database import SqlValue, Transaction

_SINCE_FORMAT = 2


def format_of(tx: Transaction) -> int:
    """Return the format of the store."""
    row = tx.row(sql.READ_FORMAT)
    if row is None:
        raise AssertionError("a store that was opened has a format")
    return int(row[0])


def keeps_documents(tx: Transaction) -> bool:
    """Return whether the store's format has room for documents."""
    return format_of(tx) >= _SINCE_FORMAT


def run_detail(tx: Transaction, job: str, run_id: str, kind: str) -> JsonObject | None:
    """Return the document of a run and a kind, None if there is none."""
    return _read(tx, sql.RUN_DETAIL, job, run_id, kind)


def keep_run_detail(
    tx: Transaction, job: str, run_id: str, kind: str, document: JsonObject
) -> None:
    """Save a document of a run under a kind, in place of any earlier one.

    Raises:
        StateError: the store has an older format.
    """
    _require_format(tx, job)
    values = (compact(document), job, run_id, kind)
    if tx.change(sql.CHANGE_RUN_DETAIL, *values) == 0:
        tx.change(sql.ADD_RUN_DETAIL, *values)


def checkpoint(tx: Transaction, job: str, kind: str) -> JsonObject:
    """Return the members of a job's checkpoint of a kind, empty if there is none."""
    return _read(tx, sql.CHECKPOINT, job, kind) or {}


def change_checkpoint(tx: Transaction, job: str, kind: str, members: JsonObject) -> None:
    """Set members of a job's checkpoint of a kind; the other members stay as they are.

    Raises:
        StateError: the store has an older format.
    """
    _require_format(tx, job)
    values = (compact({**checkpoint(tx, job, kind), **members}), job, kind)
    if tx.change(sql.CHANGE_CHECKPOINT, *values) == 0:
        tx.change(sql.ADD_CHECKPOINT, *values)


def drop_swept(tx: Transaction, job: str, before: int) -> None:
    """Delete the details of runs before an instant, epoch ms UTC, that have no staging."""
    if keeps_documents(tx):
        tx.change(sql.DROP_SWEPT_DETAILS, job, job, before)


def drop_without_run(tx: Transaction, job: str) -> None:
    """Delete the details of runs without a row: these runs ended before they got one."""
    if keeps_documents(tx):
        tx.change(sql.DROP_DETAILS_WITHOUT_RUN, job, job)


def decoded(payload: str) -> JsonObject:
    """Return the document of a payload, with exact numbers."""
    document: JsonObject = json.loads(payload, parse_float=read_number)
    return document


def _read(tx: Transaction, statement: str, *values: SqlValue) -> JsonObject | None:
    if not keeps_documents(tx):
        return None
    row = tx.row(statement, *values)
    return None if row is None else decoded(row[0])


def _require_format(tx: Transaction, job: str) -> None:
    found = format_of(tx)
    if found < _SINCE_FORMAT:
        raise StateError(
            f"the state of job {json.dumps(job)} has format {found}, which keeps no documents",
            "`dil state upgrade` upgrades it to the format of this release; so does `dil run`.",
        )
