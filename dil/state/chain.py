"""The chain's rows: reading the tip, appending blocks with compare-and-set on the head."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dil.errors import CommitConflictError, StateError
from dil.model.json import JsonObject
from dil.state import sql
from dil.state.blocks import Block, Tip, parse_block
from dil.state.canonical import is_hash_of
from dil.state.database import Row, Transaction
from dil.state.events import ConfigEvent, DataEvent


def head_hash(tx: Transaction, job: str) -> str | None:
    """Return the hash of the newest block, None for an empty chain."""
    row = tx.row(sql.HEAD, job)
    return None if row is None else str(row[0])


def read_tip(tx: Transaction, job: str) -> Tip | None:
    """Return the end of the job's chain from at most five rows, whatever its length.

    Raises:
        StateError: a block that is read is missing or damaged.
    """
    row = tx.row(sql.HEAD, job)
    if row is None:
        return None
    stored_hash, data_sequence, source_sequence, schema_sequence, sequence = row
    seed = _block(tx, job, 0)
    data = _event(tx, job, data_sequence)
    source = _event(tx, job, source_sequence)
    schema = _event(tx, job, schema_sequence)
    return Tip(
        hash=stored_hash,
        head=_block(tx, job, sequence),
        dataset_kind=str(getattr(seed.event, "dataset_kind", "")),
        data=data if isinstance(data, DataEvent) else None,
        data_sequence=data_sequence,
        source=source if isinstance(source, ConfigEvent) else None,
        source_sequence=source_sequence,
        schema=str(schema.body["schema"]) if isinstance(schema, ConfigEvent) else None,
        schema_sequence=schema_sequence,
        reset=_resets(tx, job, data_sequence, sequence),
    )


def append(
    tx: Transaction, job: str, before: Tip | None, blocks: Sequence[Block], after: Tip
) -> None:
    """Write blocks behind ``before`` and move the head, all or nothing.

    Raises:
        CommitConflictError: the head is no longer ``before``.
    """
    for block in blocks:
        has_data = isinstance(block.event, DataEvent) and block.event.new_data is not None
        tx.change(
            sql.ADD_BLOCK,
            job, block.sequence, block.hash, block.previous_hash, block.event.kind,
            block.system_time, int(has_data), block.content,
        )  # fmt: skip
    place = (
        after.hash, after.head.sequence, after.data_sequence, after.source_sequence,
        after.schema_sequence,
    )  # fmt: skip
    if before is None:
        tx.change(sql.FIRST_HEAD, job, *place)
    elif tx.change(sql.MOVE_HEAD, *place, job, before.hash) != 1:
        raise moved_head(job)


def moved_head(job: str) -> CommitConflictError:
    """Return the error of a writer who came second."""
    return CommitConflictError(
        f"the chain of job {json.dumps(job)} moved on since this run was planned",
        "Nothing of this run was recorded; run the job again.",
    )


def shown(row: Row) -> JsonObject:
    """Return a block's row as JSON with its ``hash``.

    Raises:
        StateError: the stored bytes are no JSON object.
    """
    stored_hash, payload = row
    try:
        fields: JsonObject = {**json.loads(payload), "hash": stored_hash}
    except (ValueError, TypeError) as error:
        raise _damaged(f"V06: block {stored_hash} is no JSON object") from error
    return fields


def _block(tx: Transaction, job: str, sequence: int) -> Block:
    row = tx.row(sql.BLOCK, job, sequence)
    if row is None:
        raise _damaged(f"V04: block {sequence} of job {json.dumps(job)} is missing")
    stored_hash, payload = row
    content = payload.encode() if isinstance(payload, str) else bytes(payload)
    if not is_hash_of(stored_hash, content):
        raise _damaged(f"V06: block {sequence} of job {json.dumps(job)} does not fit its hash")
    try:
        return parse_block(content)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(
            f"block {sequence} of job {json.dumps(job)} cannot be read: {error!r}"
        ) from error


def _event(tx: Transaction, job: str, sequence: int | None) -> object:
    return None if sequence is None else _block(tx, job, sequence).event


def _resets(tx: Transaction, job: str, data_sequence: int | None, head: int) -> frozenset[str]:
    since = -1 if data_sequence is None else data_sequence
    if head == since:
        return frozenset()
    named: set[str] = set()
    for (payload,) in tx.rows(sql.RESETS, job, since):
        event = parse_block(bytes(payload)).event
        fields = event.body["fields"] if isinstance(event, ConfigEvent) else ()
        named.update(map(str, fields if isinstance(fields, list) else ()))
    return frozenset(named)


def _damaged(what: str) -> StateError:
    return StateError(what, "The chain was changed outside dil. Restore a copy of the state store.")
