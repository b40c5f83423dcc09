"""The rows of a dataset's files for a reader: all rows at a block, or the new rows since.

Rows have offsets (docs/state.md). The rows that are new to a reader are in files that blocks added;
files that a later block of the same stretch removed are left out, so that the reader gets the rows
that exist at the end. A block that removes rows that the reader has seen cannot be read as new rows
and is refused. There are two exceptions. A compaction keeps every row under new offsets. If an act
removed files, and another act undid this by bringing the files back, nothing has changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dil.errors import StateError
from dil.model.dataset import FileRows, is_compaction
from dil.state.blocks.canonical import SHA2_256, system_time_text
from dil.state.blocks.events import DataEvent, Slice, SliceFile
from dil.state.chain.as_of import sequence_as_of
from dil.state.chain.chain_rows import config_event_at
from dil.state.databases.database import Transaction
from dil.state.derived.inputs import StoredInput, open_input

# These are before the first row, and before the first block.
NONE_YET = -1
_READ_AGAIN = "Read the whole dataset again without a starting offset, and replace the results."


class Position(NamedTuple):
    """A place in a dataset: a block and an offset, both already read.

    ``hash`` is the block's hash, empty before the first block. ``is_inside`` says that only some of
    the rows that the dataset has at the block are read: the rows up to the offset.
    """

    block: int = NONE_YET
    offset: int = NONE_YET
    hash: str = ""
    is_inside: bool = False


START = Position()


@dataclass(frozen=True, slots=True)
class DatasetChain:
    """The chain of a dataset at one point in time; valid only inside its transaction."""

    chain: StoredInput

    @classmethod
    def of(cls, tx: Transaction, dataset: str) -> DatasetChain:
        """Return the chain of a dataset.

        Raises:
            StateError: the store has no such chain.
        """
        chain = open_input(tx, dataset)
        if chain is None:
            raise StateError(
                f"job {json.dumps(dataset)} has no publish in its state store",
                "Run it first. A job with state.store.enabled=false keeps no chain.",
            )
        return cls(chain)

    @property
    def dataset(self) -> str:
        """Return the name of the dataset."""
        return self.chain.dataset_id

    @property
    def head(self) -> Position:
        """Return the end of the chain."""
        return self.at(self.chain.sequence)

    def at(self, sequence: int) -> Position:
        """Return the position after all rows of a block.

        Raises:
            StateError: the block does not exist.
        """
        if not 0 <= sequence <= self.chain.sequence:
            raise StateError(
                f"job {json.dumps(self.dataset)} has no block {sequence}: its newest is"
                f" {self.chain.sequence}",
                "`dil state log` lists them.",
            )
        return Position(sequence, self.chain.last_offset_at(sequence), self.chain.hash_at(sequence))

    def at_instant(self, instant_ms: int) -> Position:
        """Return the position of the last block written at or before an instant, epoch ms UTC.

        Raises:
            StateError: the chain began later.
        """
        sequence = sequence_as_of(self.chain.tx, self.dataset, instant_ms)
        if sequence is None:
            raise StateError(
                f"job {json.dumps(self.dataset)} had published nothing at"
                f" {system_time_text(instant_ms)}",
                "`dil state log` lists its blocks with their times.",
            )
        return self.at(sequence)

    def position_of_offset(self, offset: int) -> Position:
        """Return the position after the row with an offset, in the first block that has it.

        Raises:
            StateError: no block has a row with this offset.
        """
        last = self.chain.last_offset_at(self.chain.sequence)
        if offset > last:
            raise StateError(
                f"job {json.dumps(self.dataset)} has no row {offset}: its last offset is {last}",
                "Use an offset up to that one.",
            )
        low, high = 0, self.chain.sequence
        while low < high:
            middle = (low + high) // 2
            if self.chain.last_offset_at(middle) >= offset:
                high = middle
            else:
                low = middle + 1
        return Position(low, offset, self.chain.hash_at(low))

    def schema_at(self, sequence: int) -> str:
        """Return the text of the schema in force at a block, empty before the first rows."""
        newest = self.chain.schema_sequence
        if newest is not None and newest > sequence:
            newest = self.chain.last_until(sequence, ("SetDataSchema",))
        event = config_event_at(self.chain.tx, self.dataset, newest, frozenset({"SetDataSchema"}))
        return "" if event is None else str(event.body.get("schema") or "")

    def require(self, position: Position) -> None:
        """Refuse a position in another chain.

        Raises:
            StateError: the chain has no such block, so it was restored or started over (V40).
        """
        if position.block == NONE_YET:
            return
        is_here = position.block <= self.chain.sequence
        if not is_here or self.chain.hash_at(position.block) != position.hash:
            raise StateError(
                f"V40: the chain of job {json.dumps(self.dataset)} has no block {position.block}"
                f" {position.hash} any more: it was restored from a copy, or started over",
                _READ_AGAIN,
            )

    def parts_at(self, end: Position, after: int = NONE_YET) -> tuple[FileRows, ...]:
        """Return the rows that the dataset has at a block, with offsets ``(after, end]``.

        The work grows with the number of blocks with data; memory with the number of live files.

        Raises:
            StateError: a block is damaged, or rows before ``after`` have changed since.
        """
        if after >= end.offset:
            return ()
        first = NONE_YET if after == NONE_YET else self.position_of_offset(after + 1).block - 1
        return self._cut(first, end, after)

    def all_parts_at(self, end: Position) -> tuple[tuple[FileRows, ...], bool]:
        """Return all rows of the dataset at a block, and whether the dataset ever kept a changelog.

        Raises:
            StateError: a block is damaged.
        """
        found = self._added(NONE_YET, end, NONE_YET)
        return found.cut(NONE_YET, end.offset), found.keeps_changelog

    def parts_between(self, start: Position, end: Position) -> tuple[FileRows, ...]:
        """Return the rows up to ``end`` that a reader at ``start`` has not seen.

        Raises:
            StateError: ``start`` is in another chain, or rows that the reader has seen were removed
                since.
        """
        self.require(start)
        self.require(end)
        if start.block == NONE_YET or start.is_inside:
            return self._cut(NONE_YET, end, start.offset, is_new=False)
        return self._cut(start.block, end, start.offset)

    def next_end(
        self, start: Position, *, rows: int | None, files: int | None, until: Position
    ) -> Position:
        """Return the position that a reader at ``start`` reaches within its limits.

        A reader that has no rows yet takes the dataset as it is at ``until``, cut at any row. Later
        readers take whole blocks, at least one. If there are no limits, the reader reaches
        ``until``.
        """
        if start.block == NONE_YET or start.is_inside:
            end = until if start.block == NONE_YET else self.at(start.block)
            return _within(self._cut(NONE_YET, end, start.offset, is_new=False), end, rows, files)
        if start.block >= until.block:
            return start
        if rows is None and files is None:
            return until
        taken, last = _Taken(rows, files), start.block
        for number, data in self.chain.slices(start.block, until.block):
            if taken.take(data):
                last = number
        return until if taken.is_all else self.at(last)

    def _cut(
        self, first: int, end: Position, after: int, *, is_new: bool = True
    ) -> tuple[FileRows, ...]:
        """Return the rows ``(after, end.offset]`` that blocks ``(first, end.block]`` added.

        ``is_new`` says that the rows up to ``after`` were read at an earlier block, so that it is
        an error if they were removed since.
        """
        found = self._added(first, end, after if is_new else NONE_YET)
        return found.cut(after, end.offset)

    def _added(self, first: int, end: Position, seen: int) -> _Added:
        """Return the files that blocks ``(first, end.block]`` added, as a reader needs them.

        The reader has the rows up to the offset ``seen``.

        Raises:
            StateError: a block names no files, or removed rows that the reader has.
        """
        acts = self.chain.acts(first, end.block)
        found = _Added(self.dataset, seen, is_whole=first == NONE_YET and seen == NONE_YET)
        for number, event in self.chain.events_with_data(first, end.block):
            found.take(number, event, acts.get(number, ""))
        found.refuse_gone()
        return found


@dataclass(slots=True)
class GoneFiles:
    """Files that left, by their content: equal bytes have the same rows."""

    _left: dict[tuple[str, int], list[tuple[int, SliceFile]]] = field(default_factory=dict)

    def add(self, number: int, files: Iterable[SliceFile]) -> None:
        """Record files that a block removed."""
        for file in files:
            self._left.setdefault((file.physical_hash, file.rows), []).append((number, file))

    def has_back(self, file: SliceFile) -> bool:
        """Return whether a file is one of the files that left, and record it as returned."""
        if len(file.physical_hash) <= len(SHA2_256):
            return False  # its content hash is unknown
        left = self._left.get((file.physical_hash, file.rows))
        if not left:
            return False
        left.pop()
        return True

    def files(self) -> Iterator[tuple[int, SliceFile]]:
        """Yield the removed files that have not returned, with the blocks that removed them."""
        for left in self._left.values():
            yield from left

    def first(self) -> tuple[int, int] | None:
        """Return the first block with removed files that have not returned.

        The result is the block's number and the number of these files, or None if all removed files
        have returned.
        """
        left = Counter(number for number, _ in self.files())
        return min(left.items(), default=None)


@dataclass(slots=True)
class _Added:
    """The files that a stretch of blocks added and that exist at its end, by path.

    The reader has the rows up to ``seen``. ``is_whole`` says that the reader has no rows, and
    begins at the first block: then removed files never existed for it. ``keeps_changelog`` says
    that one of the blocks has a changelog.
    """

    dataset: str
    seen: int
    is_whole: bool
    parts: dict[str, SliceFile] = field(default_factory=dict)
    keeps_changelog: bool = False
    _gone: GoneFiles = field(default_factory=GoneFiles)

    def take(self, number: int, event: DataEvent, act: str) -> None:
        self.keeps_changelog = self.keeps_changelog or event.changelog is not None
        data = event.new_data
        if data is None:
            return
        if data.parts is None:
            raise StateError(
                f"block {number} of job {json.dumps(self.dataset)} names no files",
                "It was written by another tool. Its rows cannot be read through the chain.",
            )
        # A reader that has rows of this very block has seen which files it removed.
        is_seen = data.start is not None and data.start <= self.seen
        gone = [] if is_seen else [part for part in data.removes if self._is_seen(part)]
        if not (gone and is_compaction(act)):
            if any(self._is_unseen(part) for part in gone):
                raise self._taken_away(number, len(gone))
            self._gone.add(number, gone)
            for part in data.removes:
                self.parts.pop(part.path, None)
            parts = data.parts
            new = parts if not act else [each for each in parts if not self._gone.has_back(each)]
            self.parts.update((part.path, part) for part in new)
        elif len(gone) < len(data.removes) or any(self._is_unseen(part) for part in gone):
            raise StateError(
                f"block {number} of job {json.dumps(self.dataset)} is a compaction, which merges"
                " rows that were read before with rows that were not",
                f"{_READ_AGAIN} Run `dil compact` when readers have caught up.",
            )
        # The new files of a compaction of read rows are left out, because the same rows would be
        # read again, under new offsets.

    def cut(self, after: int, last: int) -> tuple[FileRows, ...]:
        """Return the rows of the files with offsets ``(after, last]``, in their order."""
        found = (_cut_part(part, after, last) for part in self.parts.values())
        return tuple(sorted((part for part in found if part.count), key=lambda part: part.offset))

    def refuse_gone(self) -> None:
        """Refuse files with rows that the reader has, if they were removed and did not return.

        Raises:
            StateError: there are such files.
        """
        if (first := self._gone.first()) is not None:
            raise self._taken_away(*first)

    def _taken_away(self, number: int, files: int) -> StateError:
        return StateError(
            f"block {number} of job {json.dumps(self.dataset)} takes rows away that were read"
            f" before (files: {files}): reading what is new since does not show which rows"
            " changed",
            f"{_READ_AGAIN} Only jobs with ms.publish.mode=append always have new rows only.",
        )

    def _is_seen(self, part: SliceFile) -> bool:
        """Return whether the reader has, or may have, rows of a file."""
        if self.is_whole or not part.rows:
            return False
        known = self.parts.get(part.path)
        return known is None or known.start is None or known.start <= self.seen

    def _is_unseen(self, part: SliceFile) -> bool:
        """Return whether a file has rows that the reader does not have."""
        known = self.parts.get(part.path)
        return known is not None and known.end is not None and known.end > self.seen


@dataclass(slots=True)
class _Taken:
    """The data that a reader takes from consecutive blocks, within its limits."""

    most_rows: int | None
    most_files: int | None
    rows: int = 0
    paths: set[str] = field(default_factory=set)
    _left: set[str] = field(default_factory=set)
    _is_full: bool = False

    @property
    def is_all(self) -> bool:
        """Return whether no data is left for the next time."""
        return not self._left

    def take(self, data: Slice) -> bool:
        """Return whether the reader continues to the end of this block.

        The reader exceeds its limits for a block that removes files of earlier blocks which the
        reader takes, because these files may be deleted already.
        """
        parts = data.parts or ()
        rows, paths = sum(part.rows for part in parts), {part.path for part in parts}
        self._is_full = self._is_full or self._is_beyond(rows, len(paths))
        if self._is_full and not any(part.path in self.paths for part in data.removes):
            self._left |= paths
            return False
        self.rows += rows
        self.paths |= paths | self._left
        self._left.clear()
        return True

    def _is_beyond(self, rows: int, files: int) -> bool:
        """Return whether a block's rows and files exceed the limits; the first block's never do."""
        if not self.paths:
            return False
        is_long = self.most_rows is not None and self.rows + rows > self.most_rows
        return is_long or (
            self.most_files is not None and len(self.paths) + files > self.most_files
        )


def _within(
    parts: tuple[FileRows, ...], end: Position, rows: int | None, files: int | None
) -> Position:
    """Return the position up to which a reader takes these rows without exceeding the limits."""
    taken = parts if files is None else parts[: max(1, files)]
    left = end.offset + 1 if rows is None else max(1, rows)
    last = NONE_YET
    for part in taken:
        count = min(left, part.count)
        last, left = part.offset + count - 1, left - count
        if not left:
            break
    if not parts or last >= parts[-1].offset + parts[-1].count - 1:
        return end
    return end._replace(offset=last, is_inside=True)


def _cut_part(part: SliceFile, after: int, last: int) -> FileRows:
    """Return the rows of a file with offsets ``(after, last]``."""
    start = part.start or 0
    first = max(0, after + 1 - start)
    count = max(0, min(part.rows, last + 1 - start) - first)
    return FileRows(part.path, part.rows, first, count, part.size, start + first, part.timelabel)


def as_json(position: Position) -> Mapping[str, int | str | bool]:
    """Return a position as the offset of a stream."""
    return {"v": 1, **position._asdict()}


def from_json(offset: Mapping[str, object]) -> Position:
    """Return the position of a stream's offset.

    Raises:
        StateError: a newer version wrote it, or it is not a position.
    """
    match dict(offset):
        case {
            "v": 1,
            "block": int(block),
            "offset": int(last),
            "hash": str(block_hash),
            "is_inside": bool(is_inside),
        }:
            return Position(block, last, block_hash, is_inside)
        case _:
            raise StateError(
                f"the stream's offset {json.dumps(dict(offset))} is not one that this dil wrote",
                "Begin with a new checkpoint folder, or use the release that wrote this one.",
            )
