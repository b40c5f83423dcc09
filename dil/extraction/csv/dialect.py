"""Defines the special characters of delimited text, and converts text to a form without escapes.

See docs/formats.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.model.csv_settings import CsvSettings

# Bytes that never occur in UTF-8. They stand for a quote or escape that is ordinary text, and for a
# separator or quote of several bytes.
LITERAL_QUOTE = b"\xff"
_WIDE_SEPARATOR = b"\xfe"
_WIDE_QUOTE = b"\xfd"
_LITERAL_ESCAPE = b"\xfc"
NO_TEXT = (LITERAL_QUOTE, _WIDE_SEPARATOR, _WIDE_QUOTE, _LITERAL_ESCAPE)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """Separator, quote and escape character; an empty text means that there is no such character.

    A cell is quoted if its first character is a quote. A quote inside a cell that is not quoted,
    or behind the closing quote, is an ordinary character.
    """

    separator: str
    quote: str
    escape: str

    @classmethod
    def of(cls, settings: CsvSettings) -> CsvDialect:
        """Return the dialect of ``ms.csv``, without an escape if the escape is the quote itself."""
        quote, escape = settings.quote_character, settings.escape_character
        return cls(settings.field_separator, quote, "" if escape == quote else escape)

    @property
    def is_wide(self) -> bool:
        """Return whether a character takes more than one byte."""
        return not f"{self.separator}{self.quote}{self.escape}".isascii()

    @property
    def separator_byte(self) -> bytes:
        """Return the byte that separates cells in plain text."""
        return self.separator.encode() if self.separator.isascii() else _WIDE_SEPARATOR

    @property
    def quote_byte(self) -> bytes:
        """Return the byte that quotes cells in plain text, empty if there are no quotes."""
        return self.quote.encode() if self.quote.isascii() else _WIDE_QUOTE

    def plain(self, text: bytes) -> bytes:
        """Return UTF-8 text in plain form: unescaped, with ``separator_byte`` and ``quote_byte``.

        A quote that an escape makes literal becomes LITERAL_QUOTE. Before any character but a quote
        or another escape, the escape is dropped, and the next character keeps its meaning.
        The text must not end in the middle of a character or of an escape.
        """
        escape, quote = self.escape.encode(), self.quote.encode()
        if escape and escape in text:
            text = text.replace(escape + escape, _LITERAL_ESCAPE)
            if quote:
                text = text.replace(escape + quote, LITERAL_QUOTE)
            text = text.replace(escape, b"").replace(_LITERAL_ESCAPE, escape)
        if not self.is_wide:
            return text
        if not self.separator.isascii():
            text = text.replace(self.separator.encode(), _WIDE_SEPARATOR)
        return text if self.quote.isascii() else text.replace(quote, _WIDE_QUOTE)

    def restored(self, cell: str) -> str:
        """Return the original text of a cell in plain form, decoded with surrogate escapes."""
        return cell.translate({0xDCFF: self.quote, 0xDCFE: self.separator, 0xDCFD: self.quote})


@dataclass(frozen=True, slots=True)
class RecordPatterns:
    """Regular expressions over plain text: for one record, many records, and the last record."""

    record: re.Pattern[bytes]
    records: re.Pattern[bytes]
    last: re.Pattern[bytes]


def record_patterns(dialect: CsvDialect) -> RecordPatterns:
    """Return the patterns of a dialect; none backtracks far, so all take linear time.

    CR, LF and CRLF outside of quotes end a record. The pattern ``last`` matches a record without
    such an end.
    """
    separator, quote = re.escape(dialect.separator_byte), re.escape(dialect.quote_byte)
    rest = rb"[^%b\r\n]*+" % separator
    cell, quoted = rest, rb""
    if quote:
        quoted = rb"%b[^%b]*+(?:%b%b[^%b]*+)*+%b" % ((quote,) * 6)
        cell = rb"(?:%b%b|(?!%b)%b)" % (quoted, rest, quote, rest)
    cells = rb"%b(?:%b%b)*+" % (cell, separator, cell)
    record = rb"%b(?:\r\n?|\n)" % cells
    return RecordPatterns(
        re.compile(record),
        re.compile(_records(separator, quote, quoted) if quote else rb"(?:%b)*+" % record),
        re.compile(rb"%b\Z" % cells),
    )


def _records(separator: bytes, quote: bytes, quoted: bytes) -> bytes:
    """Return the pattern for many records; it looks for quotes and line breaks, not for cells.

    A quote opens a cell if it is first in the text, or behind a separator or a line break. All
    matched text is outside of quotes or ends a quoted cell, so its separators are real ones.
    """
    opening = rb"(?:\A|(?<=[%b\r\n]))" % separator
    inside = rb"(?!\A)(?<![%b\r\n])%b" % (separator, quote)
    first = rb"(?:[^%b\r\n]++|%b%b|%b)*+[\r\n]" % (quote, opening, quoted, inside)
    # Two literals, not one set: the engine backtracks to a literal without trying all the rest.
    without_quotes = rb"(?>[^%b]*\n|[^%b]*\r)?+" % (quote, quote)
    return rb"(?:%b%b)*+" % (first, without_quotes)
