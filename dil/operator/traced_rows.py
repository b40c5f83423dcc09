"""Finds the rows that a trace leads to: by offsets, by a value, or in the side table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.model.dataset import FileRows
from dil.model.derived import InputSlice
from dil.model.job import WritingSpec
from dil.model.json import JsonObject
from dil.reshaping.dataset_reading import DatasetReading
from dil.reshaping.files import DatasetFiles
from dil.state.blocks.block import Block
from dil.state.blocks.events import DataEvent, Event, SideFile
from dil.state.derived.dataset_chain import NONE_YET, DatasetChain
from dil.state.derived.input_rows import one_after_the_other, recorded_reading
from dil.state.derived.inputs import StoredInput
from dil.types.schema_text import parse_schema

_MOST_ROWS = 10


@dataclass(frozen=True, slots=True)
class TracedFile:
    """The rows of one file with offsets ``first`` to ``last``.

    Both are None for a file of the side table, whose rows have no offsets.
    """

    uri: str
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class Key:
    """A column and a value, as text, by which rows are searched."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class TakenRows:
    """The rows that a query took from an input: from the dataset, and from its side table.

    ``after`` and ``last`` bound the offsets of the rows; ``last`` is None for no rows. ``beside``
    has files of the side table, each with the number of its block. ``closed`` are the rows if only
    rows of closed timelabels were taken, else None.
    """

    chain: StoredInput
    item: InputSlice
    after: int
    last: int | None
    beside: Sequence[tuple[int, SideFile]]
    schema_beside: str
    closed: Sequence[FileRows] | None = None

    def holding(self) -> dict[int, Sequence[TracedFile]]:
        """Return the blocks that published the taken rows, by number, with the rows' files."""
        if self.closed is not None:
            rows = [(part.offset, part.offset + part.count - 1) for part in self.closed]
        else:
            rows = [] if self.last is None else [(self.after + 1, self.last)]
        return self._files(rows, self.beside)

    def holding_value(self, writing: WritingSpec, key: Key) -> dict[int, Sequence[TracedFile]]:
        """Return the blocks that published taken rows with a value, by number, with the files."""
        rows = self.closed
        if rows is None:
            rows = () if self.last is None else self._rows(self.last)
        offsets = offsets_of(writing, schema_of(DatasetChain(self.chain)), rows, key) or []
        parts = one_after_the_other(file for _, file in self.beside)
        places = offsets_of(writing, parse_schema(self.schema_beside), parts, key) or []
        ends = [part.offset + part.count for part in parts]
        found = sorted({bisect_right(ends, place) for place in places})
        wanted = [(each, each) for each in offsets]
        return self._files(wanted, [self.beside[number] for number in found])

    def _rows(self, last: int) -> tuple[FileRows, ...]:
        """Return the rows of the dataset as it was when the query took them."""
        block = self.item.last_block
        sequence = None if block is None else self.chain.sequence_of(block)
        if sequence is None:
            return ()
        dataset = DatasetChain(self.chain)
        return dataset.parts_at(dataset.at(sequence)._replace(offset=last), self.after)

    def _files(
        self, rows: Sequence[tuple[int, int]], beside: Sequence[tuple[int, SideFile]]
    ) -> dict[int, Sequence[TracedFile]]:
        found = {number: [*files] for number, files in holding(self.chain, rows).items()}
        for number, file in beside:
            found.setdefault(number, []).append(TracedFile(file.path, None, None))
        return dict(found)


def taken_rows(item: InputSlice, chain: StoredInput, how: JsonObject) -> TakenRows | None:
    """Return the rows that a query took from an input; None if the chain lost their blocks.

    ``how`` is the transform that was in force.
    """
    reading = recorded_reading(chain, item, how)
    if reading is None:
        return None
    is_full, reads_closed = reading.reads_whole, reading.reads_closed
    changed = None if is_full or reads_closed else reading.changed_files()
    beside = [*(changed or ()), *(reading.late_files() if reading.reads_late else ())]
    offset = item.last_offset if is_full else item.new_offset
    return TakenRows(
        chain,
        item,
        NONE_YET if is_full or item.prev_offset is None else item.prev_offset,
        offset if changed is None else None,
        beside,
        reading.schema_beside(),
        reading.rows().parts if reads_closed else None,
    )


def offsets_in(block: Block) -> tuple[int, int] | None:
    """Return the first and the last offset of a block's rows; None if the block has no rows."""
    event = block.event
    data = event.new_data if isinstance(event, DataEvent) else None
    if data is None or data.start is None or data.end is None:
        return None
    return data.start, data.end


def holding(
    chain: StoredInput, wanted: Sequence[tuple[int, int]]
) -> dict[int, Sequence[TracedFile]]:
    """Return the blocks that published rows at these offsets, by number, with the rows' files."""
    dataset = DatasetChain(chain)
    found: dict[int, Sequence[TracedFile]] = {}
    for first, last in wanted:
        begin, end = dataset.position_of_offset(first).block, dataset.position_of_offset(last).block
        for block in chain.blocks_with_data(begin - 1, end):
            if block.sequence not in found and offsets_in(block) is not None:
                found[block.sequence] = tuple(_files(block.event, wanted))
    return found


def _files(event: Event, wanted: Sequence[tuple[int, int]]) -> Iterator[TracedFile]:
    """Yield the files of a block with rows of these offsets, once for each range of offsets."""
    new_data = event.new_data if isinstance(event, DataEvent) else None
    for part in (new_data.parts or ()) if new_data else ():
        if part.start is None or part.end is None:
            continue
        held = [
            (max(first, part.start), min(last, part.end))
            for first, last in wanted
            if first <= part.end and last >= part.start
        ]
        for first, last in _runs(held) if part.rows else ():
            yield TracedFile(part.path, first, last)


def _runs(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order; ranges that touch are joined."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
        else:
            runs.append((first, last))
    return runs


def schema_of(chain: DatasetChain) -> pa.Schema:
    """Return the schema of a dataset, as it is now."""
    return parse_schema(chain.schema_at(chain.chain.sequence))


def offsets_of(
    writing: WritingSpec, known: pa.Schema, parts: Sequence[FileRows], key: Key
) -> list[int] | None:
    """Return the offsets of the first rows with a value; None if there is no such column."""
    if key.column not in known.names:
        return None
    target = pa.schema([known.field(key.column)])
    found: list[int] = []
    for part in parts:
        reading = DatasetReading(DatasetFiles(part.uri, "", writing), known, target)
        at = part.offset
        for batch in reading.rows(part):
            found += (at + place for place in _matches(batch.column(0), key.text))
            at += batch.num_rows
            if len(found) >= _MOST_ROWS:
                return found[:_MOST_ROWS]
    return found


def _matches(values: pa.Array, text: str) -> list[int]:
    try:
        wanted = pa.scalar(text).cast(values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return []
    return list(
        pc.indices_nonzero(pc.fill_null(pc.equal(values, wanted), fill_value=False)).to_pylist()
    )
