"""Plans the next ExecuteQuery of a derived dataset from the last data block of each chain.

The work grows with the number of inputs, never with the length of a chain (rule C23): the dataset's
last data block says how much of each input was consumed, and each input's last data block says how
much the input has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dil.model.derived import InputSlice, emitted_until
from dil.model.json import JsonObject
from dil.state.blocks.block import carried_on
from dil.state.blocks.canonical import instant_of
from dil.state.blocks.events import DataEvent, Slice
from dil.state.blocks.input_validation import require_known_interval
from dil.state.chain.chain_rows import config_event_at, data_event_at
from dil.state.chain.slices import is_live
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.derived.inputs import DATA_EVENTS, StoredInput, open_input

_SCHEMA = ("SetDataSchema",)
_TRANSFORM = ("SetTransform",)
_SHAPE_EVENTS = (*_SCHEMA, *_TRANSFORM)


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """The most that one transaction takes of each input (rule C23); None means no limit.

    A block is never split: a block with more than ``rows`` rows is taken whole. ``again`` asks for
    a transaction even if no input has new rows. ``until`` has, by input, the sequence of the last
    block to take; an input that is not in ``until`` is taken to its head.
    """

    blocks: int | None = None
    rows: int | None = None
    again: bool = False
    until: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("blocks", "rows"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"max.input.{name} is {limit}, at least 1 is needed")


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A transaction planned after the data block ``data_sequence``, None if there is none yet.

    ``event`` has all members that a writer must copy (C1 to C5), the inputs' slices, and a
    watermark that is raised to the least watermark of the inputs (V38), unless an input has none.
    The caller replaces ``new_data`` and ``new_checkpoint``, and lowers ``new_watermark`` if
    necessary.
    """

    data_sequence: int | None
    event: DataEvent


def plan_query(
    tx: Transaction,
    dataset_id: str,
    limits: SliceLimits,
    *,
    inputs: Sequence[str],
    chains: Mapping[str, StoredInput],
    whole: frozenset[str] = frozenset(),
) -> QueryPlan | None:
    """Return the next transaction of a derived dataset, None if there is nothing to do.

    Args:
        tx: A transaction of one point in time, over the dataset's store.
        dataset_id: The derived dataset.
        limits: The most that one transaction may take.
        inputs: The inputs that the transform will have, in their order.
        chains: The chains of the inputs, by name.
        whole: The inputs that are taken up to their heads: no limit and no change of schema ends
            their slices.

    Raises:
        StateError: an input was reset since it was consumed (V40), or a block is damaged.
    """
    row = tx.row(sql.HEAD, dataset_id)
    data_sequence = None if row is None else row[1]
    last = None if data_sequence is None else data_event_at(tx, dataset_id, data_sequence)
    base = carried_on(last, inputs)
    taken = [
        _taken(chains[item.dataset_id], item, limits, is_whole=item.dataset_id in whole)
        for item in base.inputs or ()
    ]
    known = [watermark for _, watermark in taken if watermark is not None]
    event = replace(base, inputs=tuple(item for item, _ in taken))
    if known and len(known) == len(taken):
        least = min(known)
        event = replace(event, new_watermark=max(least, base.new_watermark or least))
    if event == base and not limits.again:
        return None
    return QueryPlan(data_sequence, event)


def transform_in_force(tx: Transaction, dataset_id: str) -> JsonObject | None:
    """Return the body of the SetTransform in force, None before the first one.

    Raises:
        StateError: its block is damaged.
    """
    row = tx.row(sql.HEAD, dataset_id)
    event = None if row is None else config_event_at(tx, dataset_id, row[2])
    return event.body if event is not None and event.kind == "SetTransform" else None


def windows_emitted_until(tx: Transaction, dataset_id: str) -> int | None:
    """Return the instant up to which windows were emitted, epoch ms UTC; None before the first.

    If the job had windows of other lengths before, the latest instant of all of them counts: no row
    is then in no window, and no window comes again. The watermark of a chain never goes back, so
    the reading ends at the first block whose watermark is not later than the instant found so far.

    Raises:
        StateError: a block is damaged.
    """
    chain = open_input(tx, dataset_id)
    found: int | None = None
    before = None if chain is None else chain.last_until(chain.sequence, DATA_EVENTS)
    while chain is not None and before is not None:
        watermark = data_event_at(tx, dataset_id, before).new_watermark
        reached = None if watermark is None else instant_of(watermark)
        if reached is None or (found is not None and reached <= found):
            break
        number = chain.last_until(before, _TRANSFORM)
        transform = config_event_at(tx, dataset_id, number)
        query = "" if transform is None else str(transform.body.get("query") or "")
        ended = emitted_until(query, reached)
        found = ended if found is None else max(found, ended)
        before = None if number is None else chain.last_until(number - 1, DATA_EVENTS)
    return found


def _taken(
    chain: StoredInput, item: InputSlice, limits: SliceLimits, *, is_whole: bool
) -> tuple[InputSlice, str | None]:
    """Return the slice to take of one input, and the input's watermark at its end."""
    first = require_known_interval(item, chain)
    end = chain.sequence if is_whole else _end(chain, item, first, limits)
    data = chain.data_until(end)
    watermark = data.new_watermark if data else None
    if end == first:
        return item, watermark
    last = data.last_offset if data else None
    is_new = last is not None and last > item.reached
    new_offset = last if is_new else None
    return replace(item, new_block_hash=chain.hash_at(end), new_offset=new_offset), watermark


def _end(chain: StoredInput, item: InputSlice, first: int, limits: SliceLimits) -> int:
    """Return the sequence of the slice's last block, at least ``first``.

    The end is beyond the limits, or beyond a new schema, if files of a shorter slice were removed.
    """
    end = _before_new_shape(chain, first)
    end = min(end, max(first, limits.until.get(chain.dataset_id, end)))
    if limits.blocks is not None:
        end = min(end, first + limits.blocks)
    if limits.rows is not None:
        end = _within_rows(chain, first, end, item.reached + limits.rows)
    return end if end >= chain.sequence else end_with_files(chain, first, end)


def _before_new_shape(chain: StoredInput, first: int) -> int:
    """Return the head, or the block before the first change of schema or transform.

    A change before the first data of the slice does not end the slice: all rows of the slice have
    the new schema, and a slice that ended before the change would always be empty.
    """
    newest = max(chain.schema_sequence or 0, chain.source_sequence or 0)
    data = chain.first_after(first, DATA_EVENTS) if newest > first else None
    if data is None:
        return chain.sequence
    if chain.last_until(data, _SCHEMA) is None and chain.last_offset_at(data) < 0:
        # A first run only removed files, or had no rows: the first schema changes nothing.
        data = chain.first_after(data, _SCHEMA)
    change = None if data is None else chain.first_after(data, _SHAPE_EVENTS)
    return chain.sequence if change is None else change - 1


def _within_rows(chain: StoredInput, first: int, end: int, limit: int) -> int:
    """Return the last block up to which all offsets are within ``limit``, by binary search.

    If even the first block with rows is too large, it is taken all the same.
    """
    if chain.last_offset_at(end) <= limit:
        return end
    low, high = first + 1, end
    while low < high:
        middle = (low + high) // 2
        if chain.last_offset_at(middle) > limit:
            high = middle
        else:
            low = middle + 1
    has_rows = low - 1 > first and chain.last_offset_at(low - 1) > chain.last_offset_at(first)
    return low - 1 if has_rows else low


def end_with_files(chain: StoredInput, first: int, end: int) -> int:
    """Return the sequence of the first block from ``end`` on at which no file of the slice is gone.

    A block after a slice that was cut may have removed files that the slice would read, as a
    compaction and a run that replaces do: then these files are deleted, and the slice continues to
    that block.

    Raises:
        StateError: a block is damaged.
    """
    if chain.first_after(end - 1, ("ResetState",)) is not None:  # only acts bring files back
        end = _end_with_files_back(chain, first, end)
    gone: set[str] = set()
    # Files of blocks behind the end: they count when the slice extends to them.
    behind: set[str] = set()
    has_changelog = False
    for low, high in ((first, end), (end, chain.sequence)):
        if low == end and not gone:
            break
        for number, event in chain.events_with_data(low, high):
            is_inside = number <= end
            if not (is_inside or gone):
                break
            has_changelog |= event.changelog is not None
            if is_inside and has_changelog:  # the changelog is read, and its files stay
                return end
            if event.new_data is None:
                continue
            removed = {part.path for part in event.new_data.removes}
            added = (part.path for part in event.new_data.parts or ())
            behind -= removed
            behind.update(path for path in added if not is_live(chain.tx, chain.dataset_id, path))
            extends = not is_inside and bool(gone & removed)
            if is_inside or extends:
                gone = (gone - removed) | behind
                behind = set()
            if extends:
                end = number
                gone = set() if has_changelog else gone
    # If no block removes a file that is gone, the reader reports it.
    return end


def _end_with_files_back(chain: StoredInput, first: int, end: int) -> int:
    """Return the block from ``end`` on by which files that left earlier have returned.

    An act that undid another act brought them back. If they do not return, the reader of the rows
    reports it.
    """
    left: Counter[str] = Counter()
    for _, data in chain.slices(first, end):
        _count(left, data)
    if not +left:
        return end
    for number, data in chain.slices(end, chain.sequence):
        _count(left, data)
        if not +left:
            return number
    return end


def _count(left: Counter[str], data: Slice) -> None:
    left.update(part.physical_hash for part in data.removes)
    for part in data.parts or ():
        if left[part.physical_hash] > 0:
            left[part.physical_hash] -= 1
