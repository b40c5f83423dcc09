"""Reads the cells of a block of records with Arrow if the result is the same, else one by one.

Arrow wants all records of a block to have the same number of cells, and reads a blank line as a
record of as many empty cells. Python's reader reads blocks that Arrow refuses or misreads.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dil.extraction.arrow_input import arrow_file
from dil.extraction.csv.dialect import LITERAL_QUOTE, NO_TEXT, CsvDialect
from dil.extraction.csv.records import CsvBlock
from dil.extraction.sizes import MOST_COLUMNS, Width

_NULLS = frozenset({"", *map("".join, product(*zip("null", "NULL", strict=True)))})
_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r")
_BOM = b"\xef\xbb\xbf"
_LIMIT = 2**31 - 1

# A failed try costs as much as ``_DOUBT`` good tries save; at ``_MOST_DOUBTS`` the tries end.
_DOUBT = 4
_MOST_DOUBTS = 32

Row = list[str | None]
Pick = Callable[[int], Sequence[int]]


class CellReader:
    """Reads blocks of one dialect; empty cells become null.

    Cells with the text ``null`` become null too, unless ``keeps_null_text`` is true. A record of
    more than ``most_columns`` cells raises a SourceContractError; 0 means no limit.
    """

    def __init__(
        self, dialect: CsvDialect, *, keeps_null_text: bool, most_columns: int = MOST_COLUMNS
    ) -> None:
        self._dialect = dialect
        self._most_columns = most_columns
        self._nulls = frozenset({""}) if keeps_null_text else _NULLS
        self._can_vectorise = not dialect.is_wide and "\0" not in dialect.separator
        taken = dialect.separator + dialect.quote
        self._end_mark = next(each for each in "\1\2\3" if each not in taken).encode() * 32
        self._doubts = 0

    def texts(self, block: CsvBlock, width: int, pick: Pick) -> dict[int, pa.Array] | None:
        """Return the texts at each wanted position; None if the block has to be read by rows.

        Texts are returned only if every record has ``width`` cells; if ``width`` is 0, the first
        record gives the number. ``pick`` returns the wanted positions for a number of cells; no
        positions mean that such records have to be read by rows. In most blocks the reading proves
        that the likely end of the block is its real end.
        """
        if not block.is_settled and self._doubts < _MOST_DOUBTS:
            found = self._texts(block.likely, width, pick, proves_end=True)
            if found is not None:
                block.settle()
                self._doubts = max(0, self._doubts - 1)
                return found
            self._doubts += _DOUBT
        return self._texts(block.records, width, pick, proves_end=False)

    def _texts(
        self, text: bytes, width: int, pick: Pick, *, proves_end: bool
    ) -> dict[int, pa.Array] | None:
        if not text:
            return None
        width = width or self.width(text)
        Width(self._most_columns).add(width)
        wanted = pick(width)
        found = self.columns(text, width, wanted, proves_end=proves_end)
        return None if found is None else dict(zip(wanted, found, strict=True))

    def columns(
        self, text: bytes, width: int, wanted: Sequence[int], *, proves_end: bool = False
    ) -> list[pa.Array] | None:
        """Return the columns at the wanted positions, None if the text has to be read by rows.

        If ``proves_end`` is true, the result is also None if the text may end within quotes.
        """
        if not self._can_vectorise or not wanted:
            return None
        if text.startswith(_BOM) or (proves_end and self._end_mark in text):
            return None  # Arrow would drop a byte order mark in every block
        has_literal = LITERAL_QUOTE in text
        kind = pa.binary() if has_literal else pa.string()
        marked = [text, self._end_record(width)] if proves_end else [text]
        try:
            columns = self._arrow(marked, width, wanted, kind)
        except pa.ArrowInvalid:
            return None
        if proves_end:
            if columns[0][-1] != pa.scalar(self._end_mark, kind):
                return None
            columns = [column[:-1] for column in columns]
        if width > 1 and _has_empty_row(columns) and _has_blank_line(text):
            return None
        return [self._with_quotes(column) for column in columns] if has_literal else columns

    def _arrow(
        self, parts: Sequence[bytes], width: int, wanted: Sequence[int], kind: pa.DataType
    ) -> list[pa.Array]:
        names = [str(position) for position in range(width)]
        size = sum(map(len, parts))
        # ``read_csv`` would wait for other threads, and for a short text the wait takes longer than
        # the reading.
        reader = pacsv.open_csv(
            arrow_file(*parts),
            pacsv.ReadOptions(use_threads=False, block_size=size + 1, column_names=names),
            pacsv.ParseOptions(
                delimiter=self._dialect.separator,
                quote_char=self._dialect.quote or False,
                double_quote=bool(self._dialect.quote),
                escape_char=False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, kind),
                include_columns=[str(position) for position in wanted],
                null_values=sorted(self._nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
        return [_single(column) for column in reader.read_all().columns]

    def _end_record(self, width: int) -> bytes:
        """Return a record to append to a text, to test whether the text ends outside of quotes.

        If it does, the cells of the appended record are read unchanged; else they become part of
        the cell whose quote is open.
        """
        return self._dialect.separator_byte.join([self._end_mark] * width) + b"\n"

    def rows(self, block: bytes) -> list[Row]:
        """Return the cells of each record; their number may differ. A blank line has one cell.

        Raises:
            UnicodeDecodeError: the text is not UTF-8.
        """
        is_plain = not any(byte in block for byte in NO_TEXT)
        if not is_plain:
            block.translate(None, b"".join(NO_TEXT)).decode()
        text = block.decode("utf-8", "strict" if is_plain else "surrogateescape")
        nulls = self._nulls
        rows: list[Row] = []
        for record in self._reader(text):
            cells = record or [""]
            if len(cells) > self._most_columns:
                Width(self._most_columns).add(len(cells))
            if not is_plain:
                cells = [self._dialect.restored(cell) for cell in cells]
            rows.append([None if cell in nulls else cell for cell in cells])
        return rows

    def width(self, block: bytes) -> int:
        """Return the number of cells of the first record."""
        return len(next(self._reader(block.decode("utf-8", "surrogateescape"))) or [""])

    def names(self, record: bytes) -> list[str]:
        """Return the cells of one record as text, for a header."""
        cells = CellReader(self._dialect, keeps_null_text=True, most_columns=self._most_columns)
        return [cell or "" for cell in cells.rows(record)[0]]

    def _reader(self, text: str) -> Iterator[list[str]]:
        if csv.field_size_limit() < _LIMIT:
            csv.field_size_limit(_LIMIT)  # for the process; RecordBlocks limits records
        quote = self._dialect.quote_byte.decode("utf-8", "surrogateescape")
        return csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self._dialect.separator_byte.decode("utf-8", "surrogateescape"),
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            strict=False,
        )

    def _with_quotes(self, array: pa.Array) -> pa.Array:
        quote = self._dialect.quote.encode()
        return pc.replace_substring(array, LITERAL_QUOTE, quote).cast(pa.string())


def _has_empty_row(columns: Sequence[pa.Array]) -> bool:
    """Return whether any row has only null cells, as a blank line has."""
    if not all(column.null_count for column in columns):
        return False
    return bool(pc.any(reduce(pc.and_, map(pc.is_null, columns))).as_py())


def _has_blank_line(block: bytes) -> bool:
    """Return whether a block may have a blank line; line breaks in quotes look like one as well."""
    return block[:1] in {b"\n", b"\r"} or any(pair in block for pair in _BLANK_LINES)


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
