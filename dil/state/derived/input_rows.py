"""The rows that a query reads of one input: of the dataset, its changelog, and its late rows.

If an input keeps a changelog, its new rows are read from there, because rows of the dataset come
and go. Late rows are beside the dataset and have no offsets: they are ordered by the block that
added them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dil.errors import StateError
from dil.model.closed_labels import CLOSED_LABELS, ClosedLabels
from dil.model.dataset import EXPIRY, FileRows, is_compaction
from dil.model.derived import REBUILD_COMMAND, InputSlice
from dil.model.interval import Interval
from dil.model.job import QueryMode
from dil.model.json import JsonObject
from dil.state.blocks.events import CLOSE_BOOKS, SideFile, SideFiles
from dil.state.chain.recorded_files import breaks_changelog
from dil.state.derived.dataset_chain import NONE_YET, DatasetChain, GoneFiles, Position
from dil.state.derived.inputs import StoredInput
from dil.state.runs.details import checkpoint
from dil.text.windows import label_start
from dil.types.schema_lines import LATE_COLUMNS, OP_COLUMN, with_columns

_REBUILD = (
    "ms.query.mode=full reads the whole input again and replaces this dataset; once:"
    f" {REBUILD_COMMAND}."
)


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows in the order in which they are read; ``schema`` is the text of their schema.

    ``has_op`` says that a column has the change of each row; without a value the row was added.
    """

    parts: tuple[FileRows, ...] = ()
    schema: str = ""
    has_op: bool = False


@dataclass(frozen=True, slots=True)
class InputReading:
    """The part of an input that a query reads: after ``reached``, up to the block ``last``.

    ``reads_whole`` asks for all rows that exist at the end, ``reads_late`` also for late rows.
    ``needs_changelog`` says that new rows come from the changelog, whatever the blocks have.
    ``reads_closed`` asks only for the rows of timelabels that were closed in this part, whenever
    these rows came. ``needs_columns`` asks for the columns also before the first row, once the
    input has rows in a later part.
    """

    chain: StoredInput
    reached: Position
    last: int
    reads_whole: bool = False
    reads_late: bool = False
    needs_changelog: bool = False
    reads_closed: bool = False
    needs_columns: bool = False

    @property
    def first(self) -> int:
        """Return the sequence of the block before the first block to read, -1 if there is none."""
        return self.reached.block

    def has_changes(self) -> bool:
        """Return whether rows came or went in this part, or labels whose rows are read were closed.

        Raises:
            StateError: rows came for a label that was closed and read before, or left it, or it
                was reopened.
        """
        if self.reads_closed:
            has_label_events = any(True for _ in self.chain.label_events(self.first, self.last))
            if self.reads_whole:
                return has_label_events or bool(self._changed_read_labels())
            if has_label_events:
                self.closed_labels()  # it refuses a label that was read and reopened
            changed = self._changed_read_labels()
            if changed:
                label, (verb, number) = min(changed.items())
                what = f"{verb} rows of the timelabel {label}, which was closed and read"
                raise self._broken(number, what)
            return has_label_events
        # Without a schema no rows ever came; blocks only removed files that were there before.
        has_schema = self.chain.schema_sequence is not None
        if has_schema and self.chain.has_data_in(self.first, self.last):
            return True
        return self.reads_late and any(True for _ in self._late_rows(self.first, self.last))

    def rows(self) -> InputRows:
        """Return the rows to read.

        Raises:
            StateError: rows that were read before were removed or changed, and no changelog has
                the changes.
        """
        if self.last < 0:
            return InputRows()
        dataset = DatasetChain(self.chain)
        end, schema = dataset.at(self.last), dataset.schema_at(self.last)
        if not schema and self.needs_columns:
            begins = self.chain.first_after(self.last, ("SetDataSchema",))
            schema = "" if begins is None else dataset.schema_at(begins)
        has_op = False
        if self.reads_closed:
            parts = self._of_closed(dataset.parts_at(end))
        elif self.reads_whole:
            # Queries may name the changelog's column as soon as a changelog is wanted, and if one
            # was ever kept, ever after.
            parts, is_kept = dataset.all_parts_at(end)
            has_op = is_kept or self.needs_changelog
        elif (changed := self.changed_files()) is not None:
            parts, has_op = one_after_the_other(file for _, file in changed), True
        elif self.chain.has_data_in(self.first, self.last):
            parts = self._new_parts(dataset, end)
        else:
            parts = ()
        if self.reads_late:
            start = parts[-1].offset + parts[-1].count if parts else 0
            parts += one_after_the_other((file for _, file in self.late_files()), start)
            schema = with_columns(schema, LATE_COLUMNS)
        return InputRows(parts, with_columns(schema, [OP_COLUMN] if has_op else []), has_op)

    def _of_closed(self, parts: Iterable[FileRows]) -> tuple[FileRows, ...]:
        labels = self.closed_labels()
        every = tuple(parts)
        mixed = next((part for part in every if labels and part.timelabel is None), None)
        if mixed is not None:
            raise StateError(
                f"{mixed.uri} has no timelabel, so it is unknown whether its rows belong to a "
                "closed label",
                "It was published before the job had timelabels, or holds rows of several "
                'timelabels. Remove "closed" from ms.query.inputs, or read the whole input again.',
            )
        return tuple(part for part in every if part.timelabel in labels)

    def closed_labels(self) -> frozenset[str]:
        """Return the timelabels that these blocks closed; if all rows are read, all closed labels.

        Raises:
            StateError: a label was reopened whose rows were read before, unless it was closed again
                and none of its files changed.
        """
        first = NONE_YET if self.reads_whole else self.first
        found: set[str] = set()
        reopened: dict[str, int] = {}
        again: dict[str, int] = {}
        for number, event in self.chain.label_events(first, self.last):
            label = str(event.body["timelabel"])
            if event.kind == CLOSE_BOOKS and label in reopened:
                again[label] = reopened.pop(label)
            elif event.kind == CLOSE_BOOKS:
                found.add(label)
            elif label in found:
                found.remove(label)
            elif first != NONE_YET:
                reopened[label] = number
        if again:
            changed = self._changed_labels()
            reopened |= {label: number for label, number in again.items() if label in changed}
        if reopened:
            label, number = min(reopened.items(), key=lambda item: item[1])
            what = f"reopens the timelabel {label}, whose rows were read"
            raise self._broken(number, what)
        return frozenset(found)

    def _changed_read_labels(self) -> dict[str, tuple[str, int]]:
        """Return the labels that were closed before this part, and that got or lost rows in it.

        The members are those of ``_changed_labels``. Rows come from a run or a backfill under
        ``ms.timelabel.close=never``, which does not look at closed labels; acts of operators take
        rows away. The work does not grow with the number of closed labels: if a label was closed or
        reopened since, the first of these changes shows whether it was closed before; else the
        present closed labels show it.
        """
        changed = self._changed_labels()
        if not changed or self.chain.last_until(self.first, (CLOSE_BOOKS,)) is None:
            return {}
        closed_before: dict[str, bool] = {}
        for _, event in self.chain.label_events(self.first, self.chain.sequence):
            closed_before.setdefault(str(event.body["timelabel"]), event.kind != CLOSE_BOOKS)
        now = ClosedLabels.of(checkpoint(self.chain.tx, self.chain.dataset_id, CLOSED_LABELS))

        def was_closed(label: str) -> bool:
            low = label_start(label)
            return closed_before.get(label, now.is_closed(Interval(low, low + 1)))

        return {label: how for label, how in changed.items() if was_closed(label)}

    def _changed_labels(self) -> dict[str, tuple[str, int]]:
        """Return the labels that got rows ("adds") or lost rows ("removes"), each with a block.

        A compaction does neither, and neither does an act that is undone.
        """
        acts = self.chain.acts(self.first, self.last)
        came: dict[str, tuple[str, int]] = {}
        gone = GoneFiles()
        for number, data in self.chain.slices(self.first, self.last):
            act = acts.get(number, "")
            if is_compaction(act):
                continue
            if act != EXPIRY or self.reads_whole:  # rows that grew old were right when read
                gone.add(number, (part for part in data.removes if part.path not in came))
            for part in data.removes if act else ():
                came.pop(part.path, None)
            for part in data.parts or ():
                if part.rows and part.timelabel and not (act and gone.has_back(part)):
                    came[part.path] = part.timelabel, number
        left = {
            part.timelabel: ("removes", number)
            for number, part in gone.files()
            if part.rows and part.timelabel
        }
        return left | {label: ("adds", number) for label, number in came.values()}

    def schema_beside(self) -> str:
        """Return the text of the schema of rows beside the dataset: changed and late rows."""
        schema = DatasetChain(self.chain).schema_at(self.last)
        return with_columns(schema, [OP_COLUMN, *LATE_COLUMNS])

    def _new_parts(self, dataset: DatasetChain, end: Position) -> tuple[FileRows, ...]:
        try:
            return dataset.parts_between(self.reached, end)
        except StateError as error:
            raise StateError(
                error.message,
                f"{_REBUILD} Only jobs with ms.publish.mode=append, and changelogs of jobs that"
                " merge (ms.publish.changelog=true), give new rows alone.",
            ) from error

    def changed_files(self) -> list[tuple[int, SideFile]] | None:
        """Return the changelog's files with their blocks, None if no block has any.

        Raises:
            StateError: the changelog starts over after rows that were read, or lacks changes.
        """
        found: list[tuple[int, SideFile]] = []
        gap, is_kept = None, self.needs_changelog
        acts = self.chain.acts(self.first, self.last)
        for number, event in self.chain.events_with_data(self.first, self.last):
            if breaks_changelog(event, acts.get(number, "")):
                gap = number
            changelog = event.changelog
            if changelog is None:
                continue
            is_kept = True
            if changelog.is_begun:
                if self.chain.has_data_in(NONE_YET, self.first):
                    raise self._broken(
                        number, "starts the changelog over, after rows that were read"
                    )
                found, gap = [], None
            found += ((number, file) for file in changelog.parts)
        if not is_kept:
            return None
        if gap is not None:
            raise self._broken(gap, "changed rows, and no changelog says which")
        return found

    def late_files(self) -> list[tuple[int, SideFile]]:
        """Return the files of late rows with their blocks; all of them if everything is read.

        Raises:
            StateError: files that were read before were removed.
        """
        first = NONE_YET if self.reads_whole else self.first
        found: dict[str, tuple[int, SideFile]] = {}
        gone: list[tuple[int, str]] = []
        for number, late in self._late_rows(first, self.last):
            gone += [(number, path) for path in late.removes if found.pop(path, None) is None]
            found.update((file.path, (number, file)) for file in late.parts)
        if gone and first != NONE_YET:
            self._leave_out_returned_files(gone, found)
        return list(found.values())

    def _leave_out_returned_files(
        self, gone: Iterable[tuple[int, str]], found: dict[str, tuple[int, SideFile]]
    ) -> None:
        """Leave out files that were read before, were removed, and were brought back by an undo.

        Each row has the id of the run that read it, so equal files have the same rows.
        """
        read = {
            file.path: file.physical_hash
            for _, late in self._late_rows(NONE_YET, self.first)
            for file in late.parts
        }
        for number, path in gone:
            content = read.get(path)
            same = (each for each, (_, file) in found.items() if file.physical_hash == content)
            back = next(same, None)
            if back is None:
                raise self._broken(number, "takes late rows away that were read before")
            del found[back]

    def _late_rows(self, first: int, last: int) -> Iterator[tuple[int, SideFiles]]:
        for number, event in self.chain.data_events(first, last):
            if event.late is not None:
                yield number, event.late

    def _broken(self, number: int, what: str) -> StateError:
        name = json.dumps(self.chain.dataset_id)
        return StateError(f"block {number} of job {name} {what}", _REBUILD)


def recorded_reading(
    chain: StoredInput, item: InputSlice, transform: JsonObject
) -> InputReading | None:
    """Return a recorded query's reading of an input, None if the chain lost the blocks it read.

    ``item`` is the block's slice of the input, ``transform`` the query in force then. The query
    does not say whether changelogs were read: they were if the blocks have any.
    """
    reached = place_of(chain, item.prev_block_hash, item.prev_offset)
    last = None if item.last_block is None else chain.sequence_of(item.last_block)
    if reached is None or last is None:
        return None
    late: Any = transform.get("late") or ()
    closed: Any = transform.get("closed") or ()
    return InputReading(
        chain,
        reached,
        last,
        reads_whole=mode_of(transform).reads_whole,
        reads_late=item.dataset_id in late,
        reads_closed=item.dataset_id in closed,
        needs_columns=not transform.get("code"),
    )


def mode_of(transform: JsonObject) -> QueryMode:
    """Return the mode of a recorded query; append if it has none."""
    return QueryMode(str(transform.get("mode") or QueryMode.APPEND))


def place_of(chain: StoredInput, block_hash: str | None, offset: int | None) -> Position | None:
    """Return the position that a block and an offset name; None if the chain lacks the block."""
    if block_hash is None:
        return Position()
    sequence = chain.sequence_of(block_hash)
    if sequence is None:
        return None
    return Position(sequence, NONE_YET if offset is None else offset, block_hash)


def one_after_the_other(files: Iterable[SideFile], start: int = 0) -> tuple[FileRows, ...]:
    """Return all rows of files beside a dataset, at positions that begin at ``start``."""
    found = []
    for file in files:
        found.append(FileRows(file.path, file.rows, 0, file.rows, file.size, start))
        start += file.rows
    return tuple(found)
