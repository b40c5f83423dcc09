"""Makes record batches from CSV blocks, with given columns or with columns found in the rows.

See docs/formats.md.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.absent_columns import AbsentColumns
from dil.extraction.csv.cells import CellReader, Row
from dil.extraction.csv.failures import BadRow, bad_cells, refuse_other_header
from dil.extraction.csv.records import CsvBlock
from dil.extraction.csv.values import are_own_texts, measured, observed, values_of
from dil.extraction.names import NameCleansing
from dil.extraction.shapes import FoundShape
from dil.model.arrow import raw_schema, type_word
from dil.model.csv_settings import CsvSpec
from dil.model.job import ExtractionSpec
from dil.model.schema import TYPE_SYNONYMS, Column, Primitive, Schema

RAGGED = (
    "CSV records with another number of cells than the header have their cells in the columns col0,"
    " col1, ..."
)
SHORT = "CSV records with fewer cells than the header have null in the columns that are missing"
BECAME_TEXT = (
    "a CSV column became text after rows of it were written as numbers or booleans; their text may"
    " differ from the source's (007 is 7): describe the column in ms.output.schema"
)

_NUMBERED = re.compile("col[0-9]+")
_HEADER = (
    "Correct the names in ms.output.schema, or in ms.csv the columnHeaderIndex (the line of the"
    " header) or the fieldSeparator (the character between its names)."
)
_QUOTES = "The source must put a cell that holds the separator in quotes."
_STRING = Primitive("string")


@dataclass(slots=True)
class ReadBlock:
    """One block as columns: all its rows, and the bad rows among them, in order.

    ``left_out`` are the names in the header that are no columns of the output.
    """

    batch: pa.RecordBatch
    bad: list[BadRow] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class CsvColumns(ABC):
    """The columns of one attempt; ``begin`` is called at the start of each response."""

    @abstractmethod
    def begin(self, header: Sequence[str] | None) -> None:
        """Start a response with the names of its header, or with None if it has no header.

        Raises:
            SourceContractError: the header lacks a column, or names one twice.
        """

    @abstractmethod
    def read(self, block: CsvBlock) -> ReadBlock:
        """Return the rows of a block; no rows if the block holds no whole record.

        Raises:
            UnicodeDecodeError: the text is not UTF-8.
        """


class GivenCsvColumns(CsvColumns):
    """Exactly the columns of ``ms.output.schema``; each takes its cell by one of three rules.

    1. ``columnProjection``: the cells of these positions, in this order.
    2. If there is a header: the cell under the column's name, in any letter case.
    3. Else the first cells, in order (docs/formats.md).

    Rules 1 and 3 skip columns of derived fields. A column without a cell is null. If
    ``ms.enable.schema.based.filtering`` is false, cells are not picked: each column needs a cell.
    """

    def __init__(
        self, spec: ExtractionSpec, columns: Schema, cells: CellReader, names: NameCleansing | None
    ) -> None:
        self._columns = columns
        self._schema = raw_schema(columns)
        self._csv: CsvSpec = spec.csv
        self._picks_cells = spec.filters_by_schema
        self._cells = cells
        self._names = names
        self._absent = AbsentColumns((column.name for column in columns), spec.csv.made_up)
        self._header: list[str] | None = None
        self._picks: tuple[int | None, ...] = ()
        self._most: int | None = None
        self._width = 0

    def begin(self, header: Sequence[str] | None) -> None:
        """Find the cell of each column."""
        projected = self._csv.settings.projected
        self._most = None
        self._header = None
        if not self._picks_cells:
            picks = self._by_position(range(len(self._columns)))
            self._most = sum(at is not None for at in picks)
        elif projected or header is None:
            picks = self._by_position(projected or range(len(self._columns)))
        else:
            self._header = [_cleansed(name, self._names) for name in header]
            made_up = self._csv.made_up
            known = [each.name for each in self._columns if each.name.lower() not in made_up]
            refuse_other_header(self._header, known, "ms.output.schema")
            picks = [self._position(column, self._header) for column in self._columns]
            self._most = len(header)
        self._width = len(header) if header is not None else 0
        order = self._csv.order
        if order:
            picks = [None if at < 0 else picks[at] for at in order]
        self._picks = tuple(picks)

    def read(self, block: CsvBlock) -> ReadBlock:
        """Return the rows of a block in the given schema."""
        texts, rows = self._texts(block)
        bad = self._too_long(rows or ())
        most = self._most
        is_short = most is not None and any(len(row) < most for row in rows or ())
        notes = (SHORT,) if is_short else ()
        arrays = []
        for cells, column in zip(texts, self._schema, strict=True):
            values = values_of(cells, column.type, cuts=True)
            bad += bad_cells(cells, values, column.name, type_word(column))
            arrays.append(values)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        notes = (*notes, *self._absent_from(batch))
        return ReadBlock(batch, bad, notes, self._absent.left_out)

    def _absent_from(self, rows: pa.RecordBatch) -> tuple[str, ...]:
        """Return notes about columns that the header of the first rows does not name.

        Raises:
            SourceContractError: the header names none of the columns.
        """
        header = self._header
        if header is not None and rows.num_rows and not self._absent.is_settled:
            lower = {name.lower() for name in header}
            known = [name for name in self._schema.names if name.lower() in lower]
            taken = {name.lower() for name in known}
            others = [name for name in header if name and name.lower() not in taken]
            self._absent.compare(known, lambda: [*known, *others], _HEADER)
        return self._absent.notes

    def _by_position(self, cells: Iterable[int]) -> list[int | None]:
        positions = iter(cells)
        return [
            None if column.name.lower() in self._csv.made_up else next(positions, None)
            for column in self._columns
        ]

    def _position(self, column: Column, header: Sequence[str]) -> int | None:
        wanted = column.name.lower()
        exact = [at for at, name in enumerate(header) if name == column.name]
        found = exact or [at for at, name in enumerate(header) if name.lower() == wanted]
        if len(found) > 1:
            raise SourceContractError(
                f'the header has the column "{column.name}" {len(found)} times',
                "Take the cells by position: columnProjection of ms.csv.",
            )
        if not found and not column.nullable and wanted not in self._csv.made_up:
            raise SourceContractError(
                f'the header has no column "{column.name}", which is not nullable',
                "Correct ms.output.schema, or make the column nullable; columnHeaderIndex of"
                " ms.csv says which line is the header.",
            )
        return found[0] if found else None

    def _texts(self, block: CsvBlock) -> tuple[list[pa.Array], list[Row] | None]:
        """Return the texts of each column, and the rows if the block was read by rows."""
        found = self._cells.texts(block, self._width, self._wanted)
        if found is not None:
            empty = pa.nulls(len(next(iter(found.values()))), pa.string())
            return [empty if at is None else found.get(at, empty) for at in self._picks], None
        rows = self._cells.rows(block.records)
        return [
            pa.array([row[at] if at is not None and at < len(row) else None for row in rows],
                     pa.string())
            for at in self._picks
        ], rows  # fmt: skip

    def _wanted(self, width: int) -> Sequence[int]:
        """Return the positions to read in records of a width, empty to read the block by rows."""
        if self._most is not None and width != self._most:
            return ()
        return sorted({at for at in self._picks if at is not None and at < width})

    def _too_long(self, rows: Sequence[Row]) -> list[BadRow]:
        """Return the rows with too many cells and, if cells are not picked, those with too few."""
        most = self._most
        if most is None:
            return []
        return [
            BadRow(at, "", f"the record has {len(row)} cells, not {most}", _QUOTES)
            for at, row in enumerate(rows)
            if len(row) > most or (len(row) < most and not self._picks_cells)
        ]


class FoundCsvColumns(CsvColumns):
    """Columns found in the rows; every block may widen them and append new ones (rule F17).

    If a record has as many cells as the header, the header names the column of each cell. If not,
    the columns are named ``col<i>``, with i from 0. A column whose header cell is blank is named
    ``col<i>``, too.
    """

    def __init__(
        self, spec: ExtractionSpec, cells: CellReader, names: NameCleansing | None
    ) -> None:
        self._cells = cells
        self._names = names
        self._forced = dict(spec.default_types)
        self._keys = spec.primary_keys
        self._default = spec.csv.settings.default_field_type
        self._text_columns = spec.text_columns
        # Numbered columns come from records without a header: a header need not name them.
        self._known = {name for name in spec.known_columns if not _NUMBERED.fullmatch(name)}
        self._shapes: dict[str, FoundShape] = {}
        self._schema: pa.Schema | None = None
        self._header: tuple[str, ...] | None = None

    def begin(self, header: Sequence[str] | None) -> None:
        """Start a response with the names of its header, which this method cleanses.

        Raises:
            SourceContractError: the header has no column of the dataset or of the answers before,
                or a name twice.
        """
        self._header = None
        if header is None:
            return
        if self._names:
            self._names.register([name for name in header if name], "")
        names = [
            _cleansed(name, self._names) if name else f"col{at}" for at, name in enumerate(header)
        ]
        if self._known:
            refuse_other_header(names, self._known, "the rows that were published before")
        else:
            earlier = {name for name in self._shapes if not _NUMBERED.fullmatch(name)}
            refuse_other_header(names, earlier, "the answers before")
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise SourceContractError(
                f'the header has the name "{twice[0]}" {names.count(twice[0])} times',
                "Describe the columns in ms.output.schema and pick cells by columnProjection of"
                " ms.csv; or let linesToSkip pass over the header, without columnHeaderIndex.",
            )
        self._header = tuple(names)

    def read(self, block: CsvBlock) -> ReadBlock:
        """Return the rows of a block, in the schema that is known after this block."""
        texts, notes = self._texts(block)
        if not texts:
            return ReadBlock(pa.RecordBatch.from_arrays([], names=[]))
        became_text, numbers = self._learn(texts)
        columns = (Column(name, self._type(name)) for name in self._shapes)
        self._schema = raw_schema(tuple(columns))
        count = len(next(iter(texts.values())))
        empty = pa.nulls(count, pa.string())
        bad: list[BadRow] = []
        arrays = []
        for column in self._schema:
            cells = texts.get(column.name, empty)
            known = numbers.get(column.name)
            values = _in_type(known, column.type) or values_of(cells, column.type, cuts=False)
            bad += bad_cells(cells, values, column.name, type_word(column))
            arrays.append(values)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return ReadBlock(batch, bad, (*notes, *((BECAME_TEXT,) if became_text else ())))

    def _texts(self, block: CsvBlock) -> tuple[dict[str, pa.Array], tuple[str, ...]]:
        """Return the text of each column that the block has."""
        found = self._cells.texts(block, len(self._header or ()), range)
        if found is not None:
            names = self._header or _numbered(len(found))
            return dict(zip(names, found.values(), strict=True)), ()
        rows = self._cells.rows(block.records)
        if not rows:
            return {}, ()
        names = self._header or _numbered(len(rows[0]))
        width = len(names)
        is_ragged = self._header is not None and any(len(row) != width for row in rows)
        columns: dict[str, list[str | None]] = {}
        for at, row in enumerate(rows):
            keys = names if len(row) == width else _numbered(len(row))
            for key, cell in zip(keys, row, strict=True):
                columns.setdefault(key, [None] * len(rows))[at] = cell
        texts = {name: pa.array(cells, pa.string()) for name, cells in columns.items()}
        return texts, (RAGGED,) if is_ragged else ()

    def _learn(self, texts: dict[str, pa.Array]) -> tuple[bool, dict[str, pa.Array | None]]:
        """Update the types of columns; return whether a column of another type became text.

        Also return, by column, the numbers that were read for the decision.
        """
        became_text = False
        numbers: dict[str, pa.Array | None] = {}
        for name, cells in texts.items():
            known = FoundShape({"text"}) if name in self._text_columns else FoundShape()
            shape = self._shapes.setdefault(name, known)
            if "text" in shape.kinds or self._forced_word(name):
                continue
            had_type = bool(shape.kinds) and self._type(name) != _STRING
            here, numbers[name] = observed(cells)
            if name in self._keys and not are_own_texts(cells, here, numbers[name]):
                here, numbers[name] = FoundShape({"text"}), None
            shape.widen(here)
            if shape.holds_decimals():
                shape.observe(measured(cells))
            became_text = became_text or (had_type and self._type(name) == _STRING)
        return became_text, numbers

    def _type(self, name: str) -> Primitive:
        word = self._forced_word(name)
        if word:
            return Primitive(TYPE_SYNONYMS.get(word, word))
        found = self._shapes[name].data_type(name, {}, name)
        return found if isinstance(found, Primitive) else _STRING

    def _forced_word(self, name: str) -> str:
        return self._forced.get(name, "").lower() or self._default


def _in_type(numbers: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    """Return numbers in the type of their column, None if they have to be read again."""
    if numbers is None or numbers.type == kind:
        return numbers
    is_narrower = pa.types.is_int64(numbers.type) and pa.types.is_int32(kind)
    return numbers.cast(kind) if is_narrower else None


def _cleansed(name: str, names: NameCleansing | None) -> str:
    return names.clean(name) if names else name


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"col{at}" for at in range(count))
