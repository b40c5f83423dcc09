"""Finds date patterns that are valid, but probably do not mean what their author wanted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dil.model.messages import DATE_PATTERN_FIX
from dil.text.joda import compile_pattern
from dil.text.joda_tokens import Token, tokenize

_QUOTED = re.compile(r"('[^']*')")
_PERCENT = re.compile(r"%-?([A-Za-z])")
_STRPTIME = {
    "Y": "yyyy", "y": "yy", "m": "MM", "b": "MMM", "B": "MMMM", "d": "dd", "e": "d", "j": "DDD",
    "a": "EEE", "A": "EEEE", "H": "HH", "I": "hh", "p": "a", "M": "mm", "S": "ss", "f": "SSSSSS",
    "z": "Z", "Z": "z", "F": "yyyy-MM-dd", "T": "HH:mm:ss", "G": "xxxx", "V": "ww", "u": "e",
}  # fmt: skip
_HOURS = frozenset("hHkK")
_DATES = frozenset("yYxdD")


def find_mistake(pattern: str) -> tuple[str, str] | None:
    """Return the reason why a pattern is probably wrong, and the likely pattern; else None.

    Joda's letters keep their meaning: YYYY-MM-dd is a sound pattern. A pattern that cannot be read
    is a mistake here only if it is a pattern of ``strptime``.
    """
    if any(_PERCENT.search(part) for part in _QUOTED.split(pattern)[::2]):
        return '"%" before a letter is of strptime, and Joda copies it', _likely(pattern)
    try:
        fields = list(tokenize(pattern))
    except ValueError:
        return None
    letters = [each.letter for each in fields]
    others = _HOURS.union(_DATES, "M").intersection(letters)
    if "m" in letters and {"s", "S"}.intersection(letters) and not others:
        return '"m" is the minute, and there is no hour', f"HH:{pattern}"
    reasons: list[str] = []
    for rule in (_month, _day, _half_day, _minute, _second, _week_year):
        found = rule([each.letter for each in fields])
        if found:
            reason, right = found
            reasons.append(reason)
            for at, letter in right.items():
                fields[at] = Token(letter, letter * fields[at].width)
    return (" and ".join(reasons), "".join(map(_written, fields))) if reasons else None


def unreadable(pattern: str) -> tuple[str, str] | None:
    """Return why a pattern cannot be read, and the advice; None if it can be read."""
    try:
        compile_pattern(pattern)
    except ValueError as error:
        return str(error), _pattern_fix(pattern)
    return None


def _pattern_fix(pattern: str) -> str:
    """Return the advice for a pattern that cannot be read."""
    likely = _likely(pattern)
    try:
        tuple(tokenize(likely))
    except ValueError:
        return DATE_PATTERN_FIX
    mistake = find_mistake(likely)
    return f"Write {mistake[1] if mistake else likely}." if likely else DATE_PATTERN_FIX


def _likely(pattern: str) -> str:
    """Return a pattern with Joda's letters in place of strptime's, and with each T in quotes."""
    parts = _QUOTED.split(pattern)
    for at in range(0, len(parts), 2):
        quoted = re.sub(r"(?<!%)T", "'T'", parts[at])
        parts[at] = _PERCENT.sub(lambda found: _STRPTIME.get(found[1], found[0]), quoted)
    return "".join(parts)


def _written(field: Token) -> str:
    if field.letter:
        return field.text
    text = field.text.replace("'", "''")
    return re.sub("[A-Za-z](?:.*[A-Za-z])?", r"'\g<0>'", text, flags=re.DOTALL)


# Each rule takes the letters of all fields, empty for literals. It returns the reason, and the
# right letters by the index of their field.
_Found = tuple[str, dict[int, str]] | None


def _places(letters: Sequence[str], wanted: str) -> list[int]:
    return [at for at, letter in enumerate(letters) if letter and letter in wanted]


def _day(letters: Sequence[str]) -> _Found:
    if "M" not in letters or "D" not in letters or "d" in letters:
        return None
    return '"D" beside a month is the day of the year', dict.fromkeys(_places(letters, "D"), "d")


def _half_day(letters: Sequence[str]) -> _Found:
    halves = _places(letters, "hK")
    if not halves or "a" in letters:
        return None
    return f'"{letters[halves[0]]}" without "a" is half a day', dict.fromkeys(halves, "H")


def _month(letters: Sequence[str]) -> _Found:
    minutes = _places(letters, "m")
    is_bare = not _HOURS.union(_DATES).intersection(letters)
    if not minutes or "M" in letters or not (is_bare or _DATES.intersection(letters)):
        return None
    if not _HOURS.intersection(letters):
        return '"m" is the minute', dict.fromkeys(minutes, "M")
    if len(minutes) == 1:
        return None
    return '"m" is the minute, also between year and day', {minutes[0]: "M"}


def _minute(letters: Sequence[str]) -> _Found:
    months = _places(letters, "M")
    if len(months) == 1 or not months or "m" in letters or not _HOURS.intersection(letters):
        return None
    return '"M" is the month, also after an hour', {months[-1]: "m"}


def _second(letters: Sequence[str]) -> _Found:
    if "S" not in letters or "s" in letters or not {"m"}.union(_HOURS) & set(letters):
        return None
    return '"S" without "s" is the fraction of a second', {_places(letters, "S")[0]: "s"}


def _week_year(letters: Sequence[str]) -> _Found:
    if "x" not in letters or "w" in letters:
        return None
    return '"x" without "w" is the year of a week', dict.fromkeys(_places(letters, "x"), "y")
