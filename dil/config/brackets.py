"""Scanning JSON-like text: where its brackets balance, what is string, comment and white space."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<double>"(?:[^"\\]|\\.)*")
    | (?P<single>(?<![^\s\[{,:])'(?:[^'\\]|\\.|'')*')
    | (?P<comment>(?<![^\s\[\]{},])(?:\#|//)[^\n]*|(?<![^\s\[\]{},])/\*.*?\*/)
    | (?P<open>[\[{])
    | (?P<close>[\]}])
    | (?P<quote>"|(?<![^\s\[{,:])'|(?<![^\s\[\]{},])/\*)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME_WITHOUT_BLANK = re.compile(r"([\[{,]\s*[A-Za-z_$][\w.$-]*):(?=\S)")
_BAD_ESCAPE = re.compile(r'\\(?:u[0-9A-Fa-f]{4}|["\\/bfnrt])|(\\)')


@dataclass(frozen=True, slots=True)
class Balance:
    """The state at the end of a text: brackets still open, and a string or comment that is.

    ``end`` is the offset behind the bracket that closed the first one, None while it is open.
    ``scanned`` is where counting goes on when text is appended.
    """

    depth: int
    unclosed: str
    end: int | None
    scanned: int

    @property
    def is_complete(self) -> bool:
        """Return whether every bracket, string and comment is closed."""
        return self.depth <= 0 and not self.unclosed


def balance(text: str, before: Balance | None = None) -> Balance:
    """Count the brackets of JSON-like text, leaving strings and comments out.

    With ``before``, the state of an earlier part of the text, only what follows is counted.
    """
    depth, end = (before.depth, before.end) if before else (0, None)
    for token in _TOKEN.finditer(text, before.scanned if before else 0):
        match token.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth -= 1
                if depth == 0 and end is None:
                    end = token.end()
            case "quote":
                return Balance(depth, token[0], end, token.start())
            case _:
                pass
    return Balance(depth, "", end, len(text))


def keep_unknown_escapes(text: str) -> str:
    r"""Double the backslash of escapes in strings that JSON does not have, such as ``\\s``."""

    def in_string(token: re.Match[str]) -> str:
        if token.lastgroup != "double":
            return token[0]
        return _BAD_ESCAPE.sub(lambda bad: r"\\" if bad[1] else bad[0], token[0])

    return _TOKEN.sub(in_string, text)


def flow_text(text: str) -> str:
    """Return lenient JSON as YAML flow text of the same length of lines.

    Comments become blanks, tabs between tokens too, and a blank follows each unquoted name.
    """
    parts: list[str] = []
    position = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup not in {"double", "single", "comment"}:
            continue
        parts.append(text[position : token.start()].replace("\t", " "))
        parts.append(_blanks(token[0]) if token.lastgroup == "comment" else token[0])
        position = token.end()
    parts.append(text[position:].replace("\t", " "))
    # Strings are put back last, so that nothing inside them is taken for a name.
    plain = "".join(part for part in parts[::2])
    if not _NAME_WITHOUT_BLANK.search(plain):
        return "".join(parts)
    return "".join(
        _NAME_WITHOUT_BLANK.sub(r"\1: ", part) if index % 2 == 0 else part
        for index, part in enumerate(parts)
    )


def _blanks(comment: str) -> str:
    return re.sub(r"[^\n]", " ", comment)
