r"""Translates Java regular expressions to Python with the same meaning, or says why it cannot.

Source: java.util.regex.Pattern, Java SE 17, without flags: ``\d \w \s`` and (?i) are ASCII, a dot
stops at all line terminators, ``$`` and ``\Z`` also match before a last line terminator. ``\b``
uses letters and digits of all scripts, as in every Java before 19.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from dil.text.java_class import CharSet, ClassReader, read_escape

# The characters that end a line for Java.
_TERMINATORS = r"\n\r\x85\u2028\u2029"
# Python's form of each anchor, by whether (?m) is on.
_ANCHORS = {
    ("^", False): r"\A",
    ("^", True): r"(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))",
    ("$", False): r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)",
    ("$", True): r"(?=(?<!\r)\n|[\r\x85\u2028\u2029]|\Z)",
}
_ASSERTIONS = {
    "A": r"\A",
    "z": r"\Z",
    "Z": _ANCHORS["$", False],
    "b": r"(?u:\b)",
    "B": r"(?!(?u:\b))",
    "R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])",
}
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_ESCAPE_OR_QUOTED = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})[?+]?")
_GROUP = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>)|(?!\?))")
_FLAGS = re.compile(r"\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<end>[:)])")
_REFERENCE = re.compile(r"\\(?:(?P<number>[1-9][0-9]*)|k<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>)")
_COMMENTS = re.compile(r"(?:[ \t\n\x0b\f\r]|#[^\n\r\x85\u2028\u2029]*)*")
_FLAG_NAMES = {"i": "ignore_case", "m": "multi_line", "s": "dot_all", "x": "comments"}
_UNSUPPORTED_FLAGS = {
    "u": "Unicode case folding",
    "U": "Unicode character classes",
    "d": "Unix lines mode",
}


class RegexError(ValueError):
    """A pattern cannot be used; ``reason`` explains it without the pattern."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(pattern, reason)
        self.pattern = pattern
        self.reason = reason

    def __str__(self) -> str:
        """Return the whole sentence."""
        return f'regular expression "{self.pattern}" cannot be used: {self.reason}'


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    comments: bool = False


@lru_cache(maxsize=512)
def compile_java(pattern: str) -> re.Pattern[str]:
    """Return the Python pattern that matches the same texts as the Java pattern.

    The caller chooses ``fullmatch`` (Java's matches) or ``search`` (find). Groups keep the numbers
    and names of the Java pattern.

    Raises:
        RegexError: the text is no valid Java pattern, or Python has no exact equivalent.
    """
    try:
        return re.compile(_Translator(_resolve_quotes(pattern)).translate(), re.ASCII)
    except re.error as error:
        reason = error.msg
        cause: Exception = error
    except (ValueError, OverflowError, RecursionError) as error:
        reason, cause = str(error), error
    raise RegexError(pattern, reason) from cause


def _resolve_quotes(pattern: str) -> str:
    r"""Replace ``\Q...\E`` by escaped characters, which mean the same in and out of a class."""

    def resolve(match: re.Match[str]) -> str:
        quoted = _QUOTED.fullmatch(match[0])
        return match[0] if quoted is None else "".join(map(_quote, quoted[1]))

    return _ESCAPE_OR_QUOTED.sub(resolve, pattern)


def _quote(char: str) -> str:
    if char.isascii() and char.isdigit():
        return f"\\x3{char}"  # a plain digit could prolong the escape before it
    return char if char.isalpha() else f"\\{char}"


class _Translator:
    """One pass over a pattern; ``at`` is the position of the next character."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags = _Flags()
        self.outer: list[_Flags] = []
        self.groups = 0

    def translate(self) -> str:
        """Return the Python pattern."""
        parts = []
        while self._skip_comments() < len(self.pattern):
            part, may_repeat = self._element()
            parts.append(part)
            if may_repeat:
                quantifier = _QUANTIFIER.match(self.pattern, self._skip_comments())
                if quantifier is not None:
                    self.at = quantifier.end()
                    parts.append(quantifier[0])
        if self.outer:
            raise ValueError("a group is not closed")
        return "".join(parts)

    def _element(self) -> tuple[str, bool]:
        """Translate one element; return it, and whether a quantifier may follow it."""
        char = self.pattern[self.at]
        match char:
            case "(":
                return self._open_group(), False
            case ")":
                return self._close_group(), True
            case "[":
                return self._class(), True
            case "\\":
                return self._escape(), True
            case "*" | "+" | "?" | "{":
                raise ValueError(f'"{char}" has nothing to repeat')
            case _:
                self.at += 1
                return self._plain(char), char != "|"

    def _plain(self, char: str) -> str:
        match char:
            case "|":
                return char
            case ".":
                return "(?s:.)" if self.flags.dot_all else f"[^{_TERMINATORS}]"
            case "^" | "$":
                return _ANCHORS[char, self.flags.multi_line]
            case _:
                return self._literal(char)

    def _literal(self, char: str) -> str:
        has_case = self.flags.ignore_case and char.isascii() and char.isalpha()
        return f"(?i:{char})" if has_case else re.escape(char)

    def _chars(self, chars: CharSet) -> str:
        return f"(?i:{chars.regex})" if self.flags.ignore_case else chars.regex

    def _class(self) -> str:
        if self.flags.comments:
            raise ValueError("character classes in comments mode (?x) are not supported")
        reader = ClassReader(self.pattern, self.at, ignore_case=self.flags.ignore_case)
        chars = reader.read()
        self.at = reader.at
        return self._chars(chars)

    def _escape(self) -> str:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in _ASSERTIONS and not self.pattern.startswith("b{g", self.at + 1):
            self.at += 2
            return _ASSERTIONS[letter]
        reference = _REFERENCE.match(self.pattern, self.at)
        if reference:
            return self._reference(reference)
        found, self.at = read_escape(self.pattern, self.at, ignore_case=self.flags.ignore_case)
        return self._literal(found) if isinstance(found, str) else self._chars(found)

    def _reference(self, reference: re.Match[str]) -> str:
        if reference["name"]:
            self.at = reference.end()
            target = f"(?P={reference['name']})"
        else:
            digits = reference["number"]
            # Java takes as many digits as there are groups so far, at least one.
            while len(digits) > 1 and int(digits) > self.groups:
                digits = digits[:-1]
            if int(digits) > min(self.groups, 99):
                raise ValueError(rf"\{digits} refers to a group that is not there")
            self.at += 1 + len(digits)
            target = rf"(?:\{digits})"
        return f"(?i:{target})" if self.flags.ignore_case else target

    def _open_group(self) -> str:
        flags = _FLAGS.match(self.pattern, self.at)
        if flags:
            return self._set_flags(flags)
        group = _GROUP.match(self.pattern, self.at)
        if group is None:
            raise ValueError("this kind of group is not known")
        self.at = group.end()
        self.outer.append(self.flags)
        if group["name"]:
            self.groups += 1
            return f"(?P<{group['name']}>"
        self.groups += group[0] == "("
        return group[0]

    def _close_group(self) -> str:
        if not self.outer:
            raise ValueError('")" closes no group')
        self.at += 1
        self.flags = self.outer.pop()
        return ")"

    def _set_flags(self, match: re.Match[str]) -> str:
        before = self.flags
        for letters, value in ((match["on"], True), (match["off"] or "", False)):
            for letter in letters:
                if letter not in _FLAG_NAMES:
                    what = _UNSUPPORTED_FLAGS.get(letter, "no known flag")
                    raise ValueError(f"flag (?{letter}), {what}, is not supported")
                self.flags = replace(self.flags, **{_FLAG_NAMES[letter]: value})
        self.at = match.end()
        if match["end"] == ")":
            return ""
        self.outer.append(before)
        return "(?:"

    def _skip_comments(self) -> int:
        """Skip blanks and comments if (?x) is on; return the position."""
        if self.flags.comments:
            match = _COMMENTS.match(self.pattern, self.at)
            self.at = match.end() if match else self.at
        return self.at
