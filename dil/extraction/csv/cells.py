"""The cells of a block of records: by Arrow where that gives the same, else one by one.

Arrow wants all records of a block to have the same number of cells, and takes a blank line for a
record of that many. What it refuses, or would take otherwise, is read by Python's reader.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dil.extraction.csv.dialect import LITERAL_QUOTE, NO_TEXT, Dialect

_NULLS = frozenset({"", *map("".join, product(*zip("null", "NULL", strict=True)))})
_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r")
_BOM = b"\xef\xbb\xbf"
_LIMIT = 2**31 - 1

Row = list[str | None]


class Cells:
    """Reads blocks of one dialect; an empty cell is null, and so is ``null`` if not kept."""

    def __init__(self, dialect: Dialect, *, keeps_null_text: bool) -> None:
        self._dialect = dialect
        self._nulls = frozenset({""}) if keeps_null_text else _NULLS
        self._can_vectorise = not dialect.is_wide and "\0" not in dialect.separator

    def columns(self, block: bytes, width: int, wanted: Sequence[int]) -> list[pa.Array] | None:
        """Return the wanted positions as text, None where the block has to be read by rows.

        Every record has ``width`` cells then, and ``wanted`` names positions below it.
        """
        if not self._can_vectorise or not wanted or (width > 1 and _has_blank_line(block)):
            return None
        if block.startswith(_BOM):
            return None  # Arrow would drop it, in every block
        names = [str(position) for position in range(width)]
        has_literal = LITERAL_QUOTE in block
        kind = pa.binary() if has_literal else pa.string()
        try:
            table = pacsv.read_csv(
                pa.BufferReader(block),
                pacsv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
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
            arrays = [_single(column) for column in table.columns]
            return [self._with_quotes(array) for array in arrays] if has_literal else arrays
        except pa.ArrowInvalid:
            return None

    def rows(self, block: bytes) -> list[Row]:
        """Return the records, each with as many cells as it has; a blank line has one.

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
            if not is_plain:
                cells = [self._dialect.restored(cell) for cell in cells]
            rows.append([None if cell in nulls else cell for cell in cells])
        return rows

    def width(self, block: bytes) -> int:
        """Return the number of cells of the first record."""
        return len(next(self._reader(block.decode("utf-8", "surrogateescape"))) or [""])

    def texts(self, record: bytes) -> list[str]:
        """Return the cells of one record as text, for a header."""
        return [cell or "" for cell in Cells(self._dialect, keeps_null_text=True).rows(record)[0]]

    def _reader(self, text: str) -> Iterator[list[str]]:
        if csv.field_size_limit() < _LIMIT:
            csv.field_size_limit(_LIMIT)  # of the whole process; records are bounded already
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


def _has_blank_line(block: bytes) -> bool:
    """Tell whether there may be a blank line; line breaks in quotes look like one as well."""
    return block[:1] in {b"\n", b"\r"} or any(pair in block for pair in _BLANK_LINES)


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
