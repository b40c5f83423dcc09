"""The grammar of ``.conf``, ``.pull``, ``.job`` and ``.properties`` files.

It is the grammar of Java properties, with two differences. White space at the end of a value is
dropped. A value that begins with ``[`` or ``{``, in the line of its key or in the next line,
continues over the following lines until its brackets balance. See rules F2 and F3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.table import lookup
from dil.errors import ConfigError, Origin, Problem
from dil.text.lenient_json import balance

_BLANKS = " \t\f"
_BRACKET = re.compile(r"\s*[\[{]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
# Java counts in UTF-16, which writes a character beyond 16 bits as two units.
_PAIR = r"u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
_ESCAPE = re.compile(rf"\\({_PAIR}|u[0-9A-Fa-f]{{4}}|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HOCON = re.compile(
    r"""include\s+(?:"|required\(|file\(|classpath\()
    |   [\w.-]+\s*\{\s*$
    |   [\w.-]+\s*\{\s*["\w.-]+\s*[={]  # JSON has no = and no object without a colon
    |   [\w-]+\s*\{\s*[\w.-]+\s*:      # no property has a name without a dot
    |   \{
    """,
    re.VERBOSE,
)
# The beginning of the next property after a value that was never closed: JSON has no =.
_NEXT_PROPERTY = re.compile(r"[A-Za-z_][\w.-]*[ \t]*=|[A-Za-z_][\w-]*(?:\.[\w-]+)+[ \t]*:")


def parse(text: str, path: str, findings: Findings) -> Iterator[Entry]:
    """Yield the entries of a file in order; ``path`` is the file's name as given, for origins.

    Raises:
        ConfigError: the file is HOCON.
    """
    lines = _LINE_END.split(text)
    index = 0
    skips = False
    while index < len(lines):
        stripped = lines[index].lstrip(_BLANKS)
        skips = skips and not _NEXT_PROPERTY.match(stripped)
        if not stripped or stripped[0] in "#!" or skips:
            index += 1
            continue
        if _HOCON.match(stripped):
            # The rest of a HOCON file cannot be read: the error has all problems so far.
            what = "looks like HOCON, which is not read"
            fix = "Write one key=value per line (Java properties), or a .yaml file."
            hocon = Problem(Origin(path, index + 1), "", what, fix)
            raise ConfigError([*findings.problems, hocon])
        line = _Line(path, index)
        index = line.read(lines)
        yield _entry(line, lines, findings)
        index = max(index, line.next)
        skips = line.is_unclosed


@dataclass(slots=True)
class _Line:
    """One logical line: text as in the file, backslash continuations joined.

    ``is_unclosed`` says that the brackets of its value never balance. The value then has all the
    following lines, up to a line that can only be the next property.
    """

    path: str
    first: int
    raw: str = ""
    next: int = 0
    is_unclosed: bool = False
    starts: list[int] = field(default_factory=list)

    def read(self, lines: list[str]) -> int:
        """Append the next logical line and return the index of the physical line after it."""
        index = self.next or self.first
        while True:
            is_kept = self.raw.endswith("\n")
            physical = lines[index] if is_kept else lines[index].lstrip(_BLANKS)
            index += 1
            backslashes = len(physical) - len(physical.rstrip("\\"))
            if backslashes % 2 == 0:
                self.raw += physical
                break
            self.raw += physical[:-1]
            self.starts.append(len(self.raw))
            if index == len(lines):
                break
        self.next = index
        return index

    def append(self, lines: list[str]) -> str:
        """Append a line break and the next logical line; return the appended text."""
        before = len(self.raw)
        self.raw += "\n"
        self.starts.append(len(self.raw))
        self.read(lines)
        return self.raw[before:]


def _entry(line: _Line, lines: list[str], findings: Findings) -> Entry:
    origin = Origin(line.path, line.first + 1)
    key_end = _match_end(_KEY, line.raw, 0)
    value_start = _match_end(_SEPARATOR, line.raw, key_end)
    key = _unescape(line.raw[:key_end], origin, findings)
    known = lookup(key)
    if known is None or known.type.spans_lines:  # a key of the user's may hold JSON for ${}
        is_bare = value_start == len(line.raw)
        if is_bare and line.next < len(lines) and _BRACKET.match(lines[line.next]):
            line.append(lines)  # JSON that begins in the line after its key
        if _BRACKET.match(line.raw, value_start):
            _extend(line, lines, value_start, origin, findings, key)
    value = _unescape(line.raw[value_start:], origin, findings).rstrip()
    # The starts of lines are offsets in the text without escapes.
    starts = [value_start, *(start for start in line.starts if start >= value_start)]
    lengths = (len(_plain(line.raw[start:end])) for start, end in pairwise(starts))
    return Entry(key, value, origin, tuple(accumulate(lengths)))


def _match_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _extend(
    line: _Line, lines: list[str], start: int, origin: Origin, findings: Findings, key: str
) -> None:
    """Append lines until the brackets of the unescaped value balance, or give up at the end."""
    first_raw, first_next, first_starts = line.raw, line.next, list(line.starts)
    plain = _plain(line.raw[start:])
    state = balance(plain)
    while not state.is_complete and line.next < len(lines):
        plain += _plain(line.append(lines))
        state = balance(plain, state)
    if state.is_complete:
        return
    # Reading continues after the first line, so that problems further down are found as well.
    line.raw, line.next, line.starts, line.is_unclosed = first_raw, first_next, first_starts, True
    what = f"an unclosed {state.unclosed}" if state.unclosed else "brackets that never balance"
    findings.problem(key, f"has {what}", "Close what this line opens.", origin)


def _plain(raw: str) -> str:
    return _ESCAPE.sub(_character, raw)


def _character(escape: re.Match[str]) -> str:
    body = escape[1]
    if len(body) > 1:
        codes = body.replace("\\", "").replace("u", "")
        return bytes.fromhex(codes).decode("utf-16-be", "surrogatepass")
    return _CONTROL.get(body, body)


def _unescape(raw: str, origin: Origin, findings: Findings) -> str:
    if "\\" not in raw:
        return raw
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", raw):
        findings.problem(
            "", r"has \u without four hexadecimal digits", r"Write \\u for a backslash.", origin
        )
    plain = _plain(raw)
    if any("\ud800" <= character <= "\udfff" for character in plain):
        findings.problem(
            "", r"has \u with half of a character", r"Write both halves, or the character.", origin
        )
    return plain
