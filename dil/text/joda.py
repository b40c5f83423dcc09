"""Date patterns with the letters of Joda-Time, as job files use them (docs/rows.md, rule G35).

Source: Joda-Time 2, DateTimeFormat; names are English.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dil.text.joda_reading import ParsedFields, readable, why_unreadable
from dil.text.joda_tokens import tokenize
from dil.text.joda_writing import why_unwritable, write_field
from dil.text.zones import find_zone, to_local

# Stands in place of a pattern for texts of ISO 8601.
ISO = "iso"
# What may be a zone in literal text: a letter, but not the T before a time; or an offset.
_LITERAL_ZONE = re.compile(r"[A-SU-Za-su-z]|[+-]\d")
_STRPTIME = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


class JodaPattern:
    """A compiled date pattern; made by ``compile_pattern``.

    Attributes:
        pattern: The text of the pattern.
        reads_zone: Whether texts name their own zone or offset.
        unreadable: The reason why ``parse`` cannot read with the pattern, empty if it can.
        strptime: A format for vectorised parsing, or None. If a text parses with it to whole
            seconds AND formats back to the very same text, ``parse`` gives the same local time.
            All other texts must go through ``parse``: strptime functions let 30 February, second
            60 and stray blanks through, and Joda reads numbers with fewer digits. Only patterns of
            literals and yyyy, MM, dd, perhaps with HH, mm, ss, have a ``strptime``.
    """

    __slots__ = ("_reader", "_tokens", "pattern", "reads_zone", "strptime", "unreadable")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._tokens = tuple(tokenize(pattern))
        self.reads_zone = any(token.letter in ("z", "Z") for token in self._tokens)
        self.unreadable = next(filter(None, map(why_unreadable, self._tokens)), "")
        fields = [token.text for token in self._tokens if token.letter]
        is_known = len(set(fields)) == len(fields) and set(fields) <= _STRPTIME.keys()
        self.strptime: str | None = None
        if is_known and {"yyyy", "MM", "dd"} <= set(fields):
            self.strptime = "".join(
                _STRPTIME[token.text] if token.letter else token.text.replace("%", "%%")
                for token in self._tokens
            )
        self._reader = None if self.unreadable else readable(self._tokens)

    def __repr__(self) -> str:
        return f"JodaPattern({self.pattern!r})"

    def unwritable(self, zone: str) -> str:
        """Return the reason why ``format`` cannot write in a zone, empty if it can."""
        reasons = (why_unwritable(token, zone) for token in self._tokens)
        return next(filter(None, reasons), "")

    def format(self, ms: int, zone: str) -> str:
        """Return an instant in epoch milliseconds as text, in a zone that ``find_zone`` knows.

        Raises:
            ValueError: the zone is unknown, the instant is outside the years 1 to 9999, or
                ``unwritable`` gives a reason.
        """
        local = to_local(ms, find_zone(zone))
        return "".join(
            write_field(token, local, zone) if token.letter else token.text
            for token in self._tokens
        )

    def has_form(self, text: str) -> bool:
        """Return whether the whole text has the pattern's form, even if its date does not exist."""
        return self._reader is not None and self._reader.fullmatch(text) is not None

    def form_length(self, text: str) -> int:
        """Return how many characters at the text's beginning have the pattern's form, else 0."""
        match = self._reader and self._reader.match(text)
        return match.end() if match else 0

    def agrees_with_iso(self, zone: str) -> bool:
        """Return whether texts of ISO 8601 keep their meaning if this pattern is read, too.

        The result is False if days stand between years and months; if hours are missing, count to
        twelve, or are not the first field of a time; or if an offset is literal text, such as 'Z',
        so that the time would be read in another zone than ``zone``.
        """
        letters = [token.letter for token in self._tokens]
        order = "".join(each for each in letters if each in ("y", "Y", "M", "d"))
        literals = (token.text for token in self._tokens if not token.letter)
        names_zone = any(_LITERAL_ZONE.search(text) for text in literals)
        time = "".join(each for each in letters if each in tuple("HhKkmsS"))
        is_usual = order.lower() != "ydm" and "HmsS".startswith(time)
        return is_usual and (zone == "UTC" or not names_zone)

    def parse(self, text: str, zone: str, *, run_now: int) -> int:
        """Return the epoch milliseconds of the whole text, as Joda reads it.

        Numbers may have fewer digits than the pattern has letters; literals may differ in case. A
        text with month or day but without a year is in the year 2000, a text with a time only on
        1970-01-01. A time that occurs twice means the earlier one. Two digits under yy are a year
        from 80 years before to 19 years after the year of the run.

        Args:
            text: The text, which must fit the pattern from end to end.
            zone: The zone of texts that name no zone.
            run_now: The time of the run, epoch ms UTC.

        Raises:
            ValueError: the text does not fit, names no real time, or lies in a DST gap. The
                reason never holds the text.
        """
        if self._reader is None:
            raise ValueError(f'pattern "{self.pattern}" cannot be read back: {self.unreadable}')
        match = self._reader.fullmatch(text)
        if match is None:
            raise ValueError(f'the text does not fit the pattern "{self.pattern}"')
        parsed = ParsedFields(run_now)
        fields = (token for token in self._tokens if token.letter)
        try:
            for token, value in zip(fields, match.groups(), strict=True):
                parsed.take(token, value)
            return parsed.instant(zone)
        except OverflowError as error:
            raise ValueError("the date is outside the years 1 to 9999") from error


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> JodaPattern:
    """Return the compiled form of a Joda pattern.

    Raises:
        ValueError: the pattern is empty, or a letter has no meaning in Joda or no support here.
    """
    if not pattern:
        raise ValueError("a date pattern must not be empty")
    return JodaPattern(pattern)
