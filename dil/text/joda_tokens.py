"""Cuts Joda date patterns into runs of letters and literal text.

Source: Joda-Time 2, DateTimeFormat (parseToken, isNumericToken).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HALFDAYS = ("AM", "PM")

_LETTERS = frozenset("GCYxwyeEDMdaKhHkmsSzZ")
_TEXT_LETTERS = frozenset("GEazZ")
_LONGEST_NUMBER = 2
_LONGEST_SHORT_NAME = 3


@dataclass(frozen=True, slots=True)
class Token:
    """A run of one pattern letter, or literal text if ``letter`` is empty."""

    letter: str
    text: str

    @property
    def width(self) -> int:
        """Return how often the letter is repeated."""
        return len(self.text)

    @property
    def is_number(self) -> bool:
        """Return whether the field is written in digits."""
        if self.letter == "M":
            return self.width <= _LONGEST_NUMBER
        return bool(self.letter) and self.letter not in _TEXT_LETTERS

    @property
    def is_long(self) -> bool:
        """Return whether a name is written in full (MMMM), not in three letters (MMM)."""
        return self.width > _LONGEST_SHORT_NAME

    @property
    def is_two_digit_year(self) -> bool:
        """Return whether the field is a year without its century."""
        return self.text in ("yy", "YY", "xx")

    @property
    def is_zone_id(self) -> bool:
        """Return whether the field is a zone id (ZZZ), not an offset (Z, ZZ)."""
        return self.letter == "Z" and self.width >= len("ZZZ")


def tokenize(pattern: str) -> Iterator[Token]:
    """Yield fields and literals in order; two quotes are one quote, also inside quoted text.

    Raises:
        ValueError: a letter has no meaning, or cannot be supported.
    """
    for is_field, group in groupby(_marks(pattern), key=lambda mark: mark[0]):
        if not is_field:
            yield Token("", "".join(text for _, text in group))
            continue
        for letter, run in groupby(text for _, text in group):
            token = Token(letter, "".join(run))
            if letter not in _LETTERS:
                raise ValueError(f'letter "{letter}" in date pattern "{pattern}" has no meaning')
            if letter == "z" and token.is_long:
                raise ValueError(
                    f'"zzzz" (long zone names) in date pattern "{pattern}" is not supported'
                )
            yield token


def _marks(pattern: str) -> Iterator[tuple[bool, str]]:
    """Yield each character with whether it is a pattern letter."""
    quoted = False
    for match in re.finditer(r"''|.", pattern, re.DOTALL):
        mark = match[0]
        if mark == "''":
            yield False, "'"
        elif mark == "'":
            quoted = not quoted
            yield False, ""  # keeps the two fields of y'' and y'a' apart
        else:
            yield mark.isascii() and mark.isalpha() and not quoted, mark
