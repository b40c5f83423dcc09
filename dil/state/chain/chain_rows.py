"""The chain's rows: reading the tip, appending blocks with compare-and-set on the head.

A plan uses the head that it read. If other writers have moved the head since, the plan's commit may
still follow them, if no block of theirs changes what the plan used (rule C21).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from dil.errors import CommitConflictError, StateError
from dil.model.dataset import Commit
from dil.model.json import JsonObject
from dil.state.blocks.block import Block, ChainHead, listed, parse_block
from dil.state.blocks.canonical import is_hash_of
from dil.state.blocks.events import SOURCE_KINDS, ConfigEvent, DataEvent, Event
from dil.state.blocks.source_state import KIND, UnitSummary
from dil.state.databases import sql
from dil.state.databases.database import LongValue, Row, Transaction

_SCHEMA_KINDS = frozenset({"SetDataSchema"})
# Events that change the meaning of the rows or of the state that a plan used.
_CONFLICTING = frozenset({"SetDataSchema", "SetTransform", "ResetState"})
PAGE = 200


def read_tip(tx: Transaction, job: str) -> ChainHead | None:
    """Return the head of the job's chain from at most five rows, however long it is.

    Raises:
        StateError: a block is missing or damaged, or the head row contradicts it.
    """
    row = tx.row(sql.HEAD, job)
    if row is None:
        if tx.row(sql.BLOCK, job, 0) is not None:
            raise damaged(f"V03: job {json.dumps(job)} has blocks, and no head")
        return None
    stored_hash, data_sequence, source_sequence, schema_sequence, sequence = row
    head = read_block_at(tx, job, sequence, stored_hash)
    _require_pointers(job, head, row)
    seed = read_block_at(tx, job, 0)
    source = config_event_at(tx, job, source_sequence)
    schema = config_event_at(tx, job, schema_sequence, _SCHEMA_KINDS)
    if data_sequence == head.sequence and isinstance(head.event, DataEvent):
        data: DataEvent | None = head.event
    else:
        data = None if data_sequence is None else data_event_at(tx, job, data_sequence)
    return ChainHead(
        hash=stored_hash,
        head=head,
        dataset_kind=str(getattr(seed.event, "dataset_kind", "")),
        data=data,
        data_sequence=data_sequence,
        source=source,
        source_sequence=source_sequence,
        schema=str(schema.body.get("schema")) if schema else None,
        schema_sequence=schema_sequence,
        reset=resets_since(tx, job, data_sequence, sequence),
    )


def read_block_at(
    tx: Transaction, job: str, sequence: int, expected_hash: str | None = None
) -> Block:
    """Return one block, after a check of its bytes against its hash.

    Raises:
        StateError: the block is missing or damaged, or its hash is not the expected one.
    """
    row = tx.row(sql.BLOCK, job, sequence)
    if row is None:
        raise damaged(f"V04: block {sequence} of job {json.dumps(job)} is missing")
    stored_hash, payload = row
    if expected_hash not in (None, stored_hash):
        raise damaged(
            f"V03: the head of job {json.dumps(job)} is {expected_hash}, its block {sequence} has "
            f"the hash {stored_hash}"
        )
    return read_stored(job, sequence, stored_hash, payload)


def read_stored(job: str, sequence: int, stored_hash: str, payload: bytes | str) -> Block:
    """Return the block of a stored row.

    Raises:
        StateError: the row's bytes do not fit its hash or its sequence, or cannot be read.
    """
    content = payload.encode() if isinstance(payload, str) else bytes(payload)
    if not is_hash_of(stored_hash, content):
        raise damaged(f"V06: block {sequence} of job {json.dumps(job)} does not fit its hash")
    try:
        block = parse_block(content)
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(
            f"block {sequence} of job {json.dumps(job)} cannot be read: {error!r}"
        ) from error
    if block.sequence != sequence:
        raise damaged(
            f"V04: block {block.sequence} of job {json.dumps(job)} is stored as {sequence}"
        )
    return block


def blocks_in_pages(
    tx: Transaction, job: str, query: str, first: int, last: int
) -> Iterator[Block]:
    """Yield the blocks of ``(first, last]`` that a query selects, page by page.

    Args:
        tx: A transaction of one point in time.
        job: The dataset.
        query: Selects sequence, hash and payload in order of the sequence; its values are the
            dataset, both bounds, and the most rows of a page.
        first: The sequence before the first block.
        last: The sequence of the last block.

    Raises:
        StateError: a block is damaged.
    """
    while True:
        page = tx.rows(query, job, first, last, PAGE)
        for sequence, stored_hash, payload in page:
            yield read_stored(job, sequence, stored_hash, payload)
            first = sequence
        if len(page) < PAGE:
            return


def data_event_at(tx: Transaction, job: str, sequence: int) -> DataEvent:
    """Return the data event of a block that must have one.

    Raises:
        StateError: the block is missing or damaged, or has another event. Without this error,
            offsets would begin at 0 again.
    """
    event = read_block_at(tx, job, sequence).event
    if not isinstance(event, DataEvent):
        raise _misled(job, sequence, event.kind)
    return event


def config_event_at(
    tx: Transaction, job: str, sequence: int | None, kinds: frozenset[str] = SOURCE_KINDS
) -> ConfigEvent | None:
    """Return the config event in a block, of one of ``kinds``; None for the sequence None.

    Raises:
        StateError: the block is missing or damaged, or has another event.
    """
    if sequence is None:
        return None
    event = read_block_at(tx, job, sequence).event
    if not isinstance(event, ConfigEvent) or event.kind not in kinds:
        raise _misled(job, sequence, event.kind)
    return event


def resets_since(tx: Transaction, job: str, sequence: int | None, head: int) -> frozenset[str]:
    """Return the members that may be dropped, because ResetState events after a block allow it."""
    since = -1 if sequence is None else sequence
    if head == since:
        return frozenset()
    named: set[str] = set()
    for (payload,) in tx.rows(sql.RESETS, job, since):
        event = parse_block(payload).event
        if isinstance(event, ConfigEvent):
            named.update(map(str, listed(event, "fields")))
    return frozenset(named)


def append(
    tx: Transaction, job: str, before: ChainHead | None, blocks: Sequence[Block], after: ChainHead
) -> None:
    """Write blocks after ``before`` and move the head, all or nothing.

    Raises:
        CommitConflictError: the head is no longer ``before``.
    """
    for block in blocks:
        has_data = isinstance(block.event, DataEvent) and block.event.new_data is not None
        tx.add(
            sql.ADD_BLOCK,
            job, block.sequence, block.hash, block.previous_hash, block.event.kind,
            block.system_time, int(has_data), long=LongValue(block.pieces),
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
    """Return the error for a writer that came second: the head has moved."""
    return CommitConflictError(
        f"the chain of job {json.dumps(job)} has new blocks since this run was planned",
        "Nothing of this run was recorded; run the job again.",
    )


def shown(row: Row) -> JsonObject:
    """Return a block's row as JSON with its ``hash``.

    Raises:
        StateError: the stored bytes are not a JSON object.
    """
    stored_hash, payload = row
    try:
        fields: JsonObject = {**json.loads(payload), "hash": stored_hash}
    except (ValueError, TypeError) as error:
        raise damaged(f"V06: block {stored_hash} is no JSON object") from error
    return fields


def damaged(what: str) -> StateError:
    """Return the error for a chain that dil cannot have written."""
    return StateError(what, "The chain was changed outside dil. Restore a copy of the state store.")


def _require_pointers(job: str, head: Block, row: Row) -> None:
    """Check that the head row names the head block as the newest of its kind.

    The kinds are data, source and schema; a head block of any other kind is not checked.
    """
    _, data_sequence, source_sequence, schema_sequence, sequence = row
    kind = head.event.kind
    stated = None
    if isinstance(head.event, DataEvent):
        stated = data_sequence
    elif kind in SOURCE_KINDS:
        stated = source_sequence
    elif kind in _SCHEMA_KINDS:
        stated = schema_sequence
    else:
        return
    if stated != sequence:
        raise _misled(job, sequence, kind)


def _misled(job: str, sequence: int, kind: str) -> StateError:
    return damaged(
        f"the head of job {json.dumps(job)} contradicts its block {sequence}, which holds {kind}"
    )


@dataclass(frozen=True, slots=True)
class PlannedHead:
    """The head that a plan used; sequence -1 and no hash for an empty chain."""

    sequence: int
    hash: str | None


def planned_now(tx: Transaction, job: str) -> PlannedHead:
    """Return the head as it is now."""
    row = tx.row(sql.HEAD, job)
    return PlannedHead(-1, None) if row is None else PlannedHead(row[4], row[0])


def still_holds(tx: Transaction, job: str, planned: PlannedHead, commit: Commit) -> bool:
    """Return whether a commit may be written after the present head.

    It may if the planned head is still part of the chain, and each later block is a configuration
    that leaves rows and state unchanged, or data of other work units. Only the later blocks are
    read: none if the head did not move.
    """
    now = planned_now(tx, job)
    if now == planned:
        return True
    if commit.act is not None or now.sequence <= planned.sequence:
        return False
    if planned.sequence >= 0:
        row = tx.row(sql.BLOCK, job, planned.sequence)
        if row is None or row[0] != planned.hash:
            return False
    mine = {outcome.signature for outcome in (*commit.run.outcomes, *commit.run.skipped)}
    mine.update(commit.run.forgotten)
    newer = tx.rows(sql.BLOCKS_SINCE, job, planned.sequence)
    events = (parse_block(bytes(payload)).event for _, payload in newer)
    return all(_leaves_alone(event, commit, mine) for event in events)


def _leaves_alone(event: Event, commit: Commit, mine: Collection[str]) -> bool:
    """Return whether an event that a plan does not know leaves the commit of that plan valid."""
    if not isinstance(event, DataEvent):
        return event.kind not in _CONFLICTING
    if event.new_data is not None and any(file.signature not in mine for file in commit.removes):
        return False  # the files that this commit replaces would not include the block's files
    state = event.new_source_state
    if state is None or state.kind != KIND:
        return False
    return all(row["sig"] not in mine for row in UnitSummary.delta_of(state))
