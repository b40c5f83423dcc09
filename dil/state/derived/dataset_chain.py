"""Which rows of which files a reader of a dataset takes: all at a block, or what is new since.

Rows have offsets (docs/state.md). What a reader has not seen lies in files that blocks added; a
file that a later block of the same stretch took away is left out, so that what is read is what is
there at the end. A block that takes away rows which the reader has seen cannot be read as new rows
and is refused, but for a compaction: it keeps every row, under new offsets. So does an act that
brings files back as they were, when another one is taken back: then nothing has changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dil.errors import StateError
from dil.model.dataset import is_compaction
from dil.model.file_rows import FileRows
from dil.state.blocks.canonical import SHA2_256, system_time_text
from dil.state.blocks.events import ConfigEvent, Slice, SliceFile
from dil.state.chain.as_of import sequence_as_of
from dil.state.chain.chain_rows import config_event_at, read_stored
from dil.state.databases.database import Transaction
from dil.state.derived.inputs import PAGE, StoredInput, open_input

# Before the first row, and before the first block.
NONE_YET = -1
_PAGE_OF_RESETS = (
    "SELECT seq, block_hash, payload FROM mc_block WHERE dataset_id = ?"
    " AND event_kind = 'ResetState' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
)
_ANEW = "Read the whole dataset anew, without a starting offset, and replace what was made of it."


class Position(NamedTuple):
    """A place in a dataset: up to a block, and up to an offset, both of them read.

    ``hash`` is the block's, empty before the first one. ``is_inside`` says that the rows of the
    dataset as it is at the block are read up to the offset, and some of them are not read yet.
    """

    block: int = NONE_YET
    offset: int = NONE_YET
    hash: str = ""
    is_inside: bool = False


START = Position()


@dataclass(frozen=True, slots=True)
class DatasetChain:
    """The chain of a dataset at one point in time; made in a transaction and good as long."""

    chain: StoredInput

    @classmethod
    def of(cls, tx: Transaction, dataset: str) -> DatasetChain:
        """Return the chain of a dataset.

        Raises:
            StateError: the store has none.
        """
        chain = open_input(tx, dataset)
        if chain is None:
            raise StateError(
                f"job {json.dumps(dataset)} has published nothing that its state store knows of",
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
        """Return the position behind all rows of a block.

        Raises:
            StateError: there is no such block.
        """
        if not 0 <= sequence <= self.chain.sequence:
            raise StateError(
                f"job {json.dumps(self.dataset)} has no block {sequence}: its newest is"
                f" {self.chain.sequence}",
                "`dil state log` lists them.",
            )
        return Position(sequence, self._last_offset(sequence), self.chain.hash_at(sequence))

    def at_instant(self, instant_ms: int) -> Position:
        """Return the position of the last block that was written until an instant, epoch ms UTC.

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
        """Return the position behind the row of an offset, in the first block that has it.

        Raises:
            StateError: no block does.
        """
        last = self._last_offset(self.chain.sequence)
        if offset > last:
            raise StateError(
                f"job {json.dumps(self.dataset)} has no row {offset}: its last offset is {last}",
                "Name one that is there.",
            )
        low, high = 0, self.chain.sequence
        while low < high:
            middle = (low + high) // 2
            if self._last_offset(middle) >= offset:
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
        """Refuse a position of another chain.

        Raises:
            StateError: the chain has no such block, so it was restored or begun again (V40).
        """
        if position.block == NONE_YET:
            return
        is_here = position.block <= self.chain.sequence
        if not is_here or self.chain.hash_at(position.block) != position.hash:
            raise StateError(
                f"V40: the chain of job {json.dumps(self.dataset)} has no block {position.block}"
                f" {position.hash} any more: it was restored from a copy, or begun anew",
                _ANEW,
            )

    def parts_at(self, end: Position, after: int = NONE_YET) -> tuple[FileRows, ...]:
        """Return the rows of the dataset as it is at a block, those with offsets ``(after, end]``.

        Work grows with the number of blocks that have data; memory with that of live files.

        Raises:
            StateError: a block is damaged, or rows before ``after`` were changed since.
        """
        if after >= end.offset:
            return ()
        first = NONE_YET if after == NONE_YET else self.position_of_offset(after + 1).block - 1
        return self._cut(first, end, after)

    def parts_between(self, start: Position, end: Position) -> tuple[FileRows, ...]:
        """Return the rows that a reader who is at ``start`` has not seen, up to ``end``.

        Raises:
            StateError: it was at a position of another chain, or rows that it has seen were taken
                away since.
        """
        self.require(start)
        self.require(end)
        if start.block == NONE_YET or start.is_inside:
            return self._cut(NONE_YET, end, start.offset, is_new=False)
        return self._cut(start.block, end, start.offset)

    def next_end(
        self, start: Position, *, rows: int | None, files: int | None, until: Position
    ) -> Position:
        """Return how far a reader at ``start`` gets that takes so much at a time, at most.

        A reader of nothing yet takes the dataset as it is at ``until``, cut at any row. After that
        blocks are taken whole, one at least. Without limits it gets to ``until``.
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

        ``is_new`` says that rows up to ``after`` were read in an earlier state of the dataset.
        """
        acts = self.acts(first, end.block)
        seen = after if is_new else NONE_YET
        found = _Added(self.dataset, seen, is_whole=first == NONE_YET and seen == NONE_YET)
        for number, data in self.chain.slices(first, end.block):
            if data.parts is None:
                raise StateError(
                    f"block {number} of job {json.dumps(self.dataset)} names no files",
                    "It was written by another tool. Its rows cannot be read through the chain.",
                )
            found.take(number, data, acts.get(number, ""))
        found.refuse_gone()
        cut = (_cut_part(part, after, end.offset) for part in found.parts.values())
        return tuple(sorted((part for part in cut if part.count), key=lambda part: part.offset))

    def acts(self, first: int, last: int) -> Mapping[int, str]:
        """Return the verbs of acts whose files are in blocks ``(first, last]``, by the block.

        The block before such a one says so, and a reader may have ended there.
        """
        found: dict[int, str] = {}
        after = first - 1
        while True:
            page = self.chain.tx.rows(_PAGE_OF_RESETS, self.dataset, after, last - 1, PAGE)
            for number, stored_hash, payload in page:
                event = read_stored(self.dataset, number, stored_hash, payload).event
                if isinstance(event, ConfigEvent) and "act" in event.body:
                    found[number + 1] = str(event.body["act"])
                after = number
            if len(page) < PAGE:
                return found

    def _last_offset(self, sequence: int) -> int:
        data = self.chain.data_until(sequence)
        return NONE_YET if data is None or data.last_offset is None else data.last_offset


@dataclass(slots=True)
class _GoneFiles:
    """Files that left, by their content: the same bytes hold the same rows."""

    _blocks: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def add(self, number: int, files: Iterable[SliceFile]) -> None:
        """Note files that a block took away."""
        for file in files:
            self._blocks.setdefault((file.physical_hash, file.rows), []).append(number)

    def has_back(self, file: SliceFile) -> bool:
        """Return whether a file is one of them, and count it as back."""
        if len(file.physical_hash) <= len(SHA2_256):
            return False  # its content is not on record
        blocks = self._blocks.get((file.physical_hash, file.rows))
        if not blocks:
            return False
        blocks.pop()
        return True

    def first(self) -> tuple[int, int] | None:
        """Return the first block whose files are not back, and how many they are, None for none."""
        left = Counter(number for blocks in self._blocks.values() for number in blocks)
        return min(left.items(), default=None)


@dataclass(slots=True)
class _Added:
    """The files of a stretch of blocks that are there at its end, by path.

    Rows up to ``seen`` the reader has. ``is_whole`` says that it has none, and begins at the first
    block: then whatever leaves was never there for it.
    """

    dataset: str
    seen: int
    is_whole: bool
    parts: dict[str, SliceFile] = field(default_factory=dict)
    _gone: _GoneFiles = field(default_factory=_GoneFiles)

    def take(self, number: int, data: Slice, act: str) -> None:
        # Who has rows of this very block has seen what it took away.
        is_seen = data.start is not None and data.start <= self.seen
        gone = [] if is_seen else [part for part in data.removes if self._is_seen(part)]
        if not (gone and is_compaction(act)):
            if any(self._is_unseen(part) for part in gone):
                raise self._taken_away(number, len(gone))
            self._gone.add(number, gone)
            for part in data.removes:
                self.parts.pop(part.path, None)
            parts = data.parts or ()
            new = parts if not act else [each for each in parts if not self._gone.has_back(each)]
            self.parts.update((part.path, part) for part in new)
        elif len(gone) < len(data.removes) or any(self._is_unseen(part) for part in gone):
            raise StateError(
                f"block {number} of job {json.dumps(self.dataset)} is a compaction, which put rows"
                " together that were read before with others that were not",
                f"{_ANEW} Run `dil compact` when readers have caught up.",
            )
        # Else the same rows are there once more, under new offsets.

    def refuse_gone(self) -> None:
        """Refuse files that the reader has rows of, that left, and that did not come back.

        Raises:
            StateError: there are some.
        """
        if (first := self._gone.first()) is not None:
            raise self._taken_away(*first)

    def _taken_away(self, number: int, files: int) -> StateError:
        return StateError(
            f"block {number} of job {json.dumps(self.dataset)} takes rows away that were read"
            f" before (files: {files}): reading what is new since does not show which rows"
            " changed",
            f"{_ANEW} New rows alone come from jobs with ms.publish.mode=append.",
        )

    def _is_seen(self, part: SliceFile) -> bool:
        """Return whether the reader has rows of a file, or may have."""
        if self.is_whole or not part.rows:
            return False
        known = self.parts.get(part.path)
        return known is None or known.start is None or known.start <= self.seen

    def _is_unseen(self, part: SliceFile) -> bool:
        """Return whether the reader lacks rows of a file."""
        known = self.parts.get(part.path)
        return known is not None and known.end is not None and known.end > self.seen


@dataclass(slots=True)
class _Taken:
    """The data that a reader takes of blocks one after the other, within its limits."""

    most_rows: int | None
    most_files: int | None
    rows: int = 0
    paths: set[str] = field(default_factory=set)
    _left: set[str] = field(default_factory=set)
    _is_full: bool = False

    @property
    def is_all(self) -> bool:
        """Return whether nothing was left for the next time."""
        return not self._left

    def take(self, data: Slice) -> bool:
        """Return whether the reader goes on to the end of this block.

        It goes beyond its limits for a block that takes away what it would read: those files may
        be gone already.
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
        """Return whether so much more would be too much; the first block is taken whole."""
        if not self.paths:
            return False
        is_long = self.most_rows is not None and self.rows + rows > self.most_rows
        return is_long or (
            self.most_files is not None and len(self.paths) + files > self.most_files
        )


def _within(
    parts: tuple[FileRows, ...], end: Position, rows: int | None, files: int | None
) -> Position:
    """Return the end of the first of these rows that keep to the limits."""
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
        StateError: a newer version wrote it, or it is no position.
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
            pass
    raise StateError(
        f"the stream's offset {json.dumps(dict(offset))} is none that this dil wrote",
        "Begin with a new checkpoint folder, or use the release that wrote this one.",
    )
