"""Character classes and escapes of Java regular expressions, as sets that Python can match.

Source: java.util.regex.Pattern, Java SE 17, summary of regular-expression constructs.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import groupby
from operator import and_, or_

_CLASS_LETTERS = {
    "d": r"\d",
    "s": r"\s",
    "w": r"\w",
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": r"\x20-~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
# With (?i) Java releases disagree on these.
_CASED = frozenset({"Lower", "Upper", "Lu", "Ll", "Lt"})
_CATEGORY = re.compile(r"(?:Is)?(L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfosn]?)")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CODED = re.compile(
    r"x(?P<x>[0-9a-fA-F]{2})|x\{(?P<long>[0-9a-fA-F]{1,6})\}"
    r"|u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u(?P<u>[0-9a-fA-F]{4})|0(?P<octal>[0-3]?[0-7]{1,2})"
)
_PROPERTY = re.compile(r"[pP](?:\{(?P<long>[^}]*)\}|(?P<short>[A-Za-z]))")


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of characters: ``items`` for use in brackets, or a ``pattern`` for one character."""

    items: str = ""
    pattern: str = ""

    @property
    def regex(self) -> str:
        """Return a regular expression that matches exactly one character of the set."""
        return self.pattern or f"[{self.items}]"

    def negated(self) -> CharSet:
        """Return the set of all other characters."""
        if self.items:
            return CharSet(pattern=f"[^{self.items}]")
        return CharSet(pattern=rf"(?:(?!{self.pattern})[\s\S])")

    def __or__(self, other: CharSet) -> CharSet:
        if self.items and other.items:
            return CharSet(self.items + other.items)
        return CharSet(pattern=f"(?:{self.regex}|{other.regex})")

    def __and__(self, other: CharSet) -> CharSet:
        return CharSet(pattern=f"(?:(?={other.regex}){self.regex})")


def read_escape(text: str, at: int, *, ignore_case: bool) -> tuple[CharSet | str, int]:
    r"""Read the escape whose backslash is at ``at``: a set such as ``\d``, or one character.

    Returns:
        The set or character, and the position behind it.

    Raises:
        ValueError: the escape is unknown or has no equivalent.
    """
    letter = text[at + 1 : at + 2]
    if not letter:
        raise ValueError("it ends with a single backslash")
    if letter in "pP":
        return _read_property(text, at + 1, ignore_case=ignore_case)
    if letter.lower() in _CLASS_LETTERS:
        chars = CharSet(_CLASS_LETTERS[letter.lower()])
        return (chars.negated() if letter.isupper() else chars), at + 2
    if letter in _CONTROLS:
        return _CONTROLS[letter], at + 2
    if letter == "c" and at + 2 < len(text):
        return chr(ord(text[at + 2]) ^ 64), at + 3
    coded = _CODED.match(text, at + 1)
    if coded:
        return _decode(coded), coded.end()
    if letter.isascii() and letter.isalnum():
        raise ValueError(rf'escape "\{letter}" has no meaning or no equivalent here')
    return letter, at + 2


def _decode(coded: re.Match[str]) -> str:
    if coded["high"]:
        pair = bytes.fromhex(coded["high"] + coded["low"])
        return pair.decode("utf-16-be")
    if coded["octal"]:
        return chr(int(coded["octal"], 8))
    code = int(coded["x"] or coded["long"] or coded["u"], 16)
    if code > sys.maxunicode:
        raise ValueError(f"there is no character with code {code:x}")
    return chr(code)


def _read_property(text: str, at: int, *, ignore_case: bool) -> tuple[CharSet, int]:
    match = _PROPERTY.match(text, at)
    if match is None:
        raise ValueError(rf'"\{text[at]}" needs a property, such as \p{{Alpha}}')
    name = match["long"] or match["short"] or ""
    category = _CATEGORY.fullmatch(name)
    if name not in _POSIX and category is None:
        raise ValueError(rf'character property "\p{{{name}}}" has no equivalent')
    short_name = category[1] if category else name
    if ignore_case and short_name in _CASED:
        raise ValueError(rf'"\p{{{name}}}" with (?i) differs between Java releases')
    chars = CharSet(_category_items(short_name) if category else _POSIX[name])
    return (chars.negated() if text[at] == "P" else chars), match.end()


@lru_cache(maxsize=32)
def _category_items(category: str) -> str:
    """Return the characters of a general category, such as L or Nd, as ranges."""
    codes = (
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)).startswith(category)
    )
    runs = groupby(enumerate(codes), key=lambda pair: pair[1] - pair[0])
    ranges = ([code for _, code in run] for _, run in runs)
    return "".join(_range(chr(run[0]), chr(run[-1])) for run in ranges)


def _range(first: str, last: str) -> str:
    return f"{re.escape(first)}-{re.escape(last)}"


class ClassReader:
    """Reads one bracketed class; ``at`` is behind its closing bracket afterwards."""

    def __init__(self, text: str, at: int, *, ignore_case: bool) -> None:
        self.text = text
        self.at = at
        self.ignore_case = ignore_case

    def read(self) -> CharSet:
        """Read the class whose opening bracket is at ``at``.

        Raises:
            ValueError: the class is not closed, or means different things in different Java
                releases.
        """
        self.at += 1
        negated = self._take("^")
        operands: list[list[CharSet]] = [[]]
        is_nested = False
        while not (self._peek("]") and any(operands)):
            if self.at >= len(self.text):
                raise ValueError("a character class is not closed")
            if self._take("&&"):
                operands.append([])
            elif self._peek("["):
                is_nested = True
                operands[-1].append(self.read())
            else:
                operands[-1].append(self._item())
        self.at += 1
        if not all(operands):
            raise ValueError('"&&" in a character class needs something on both sides')
        if negated and (is_nested or len(operands) > 1):
            raise ValueError("[^...] with a class or && inside differs between Java releases")
        if is_nested and any(len(operand) > 1 for operand in operands[1:]):
            raise ValueError('after "&&" only one class or only plain characters are supported')
        result = reduce(and_, (reduce(or_, operand) for operand in operands))
        return result.negated() if negated else result

    def _item(self) -> CharSet:
        low = self._element()
        has_range = self._peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", "[", "")
        if isinstance(low, CharSet):
            return low
        if not has_range:
            return CharSet(re.escape(low))
        self.at += 1
        high = self._element()
        if isinstance(high, CharSet) or high < low:
            raise ValueError("a range in a character class goes backwards or ends in a class")
        return CharSet(_range(low, high))

    def _element(self) -> CharSet | str:
        if self._peek("\\"):
            element, self.at = read_escape(self.text, self.at, ignore_case=self.ignore_case)
            return element
        self.at += 1
        return self.text[self.at - 1]

    def _peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        self.at += len(text) if found else 0
        return found
