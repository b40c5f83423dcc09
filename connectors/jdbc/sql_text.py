"""Cuts a statement into code, texts, quoted names, comments and placeholders; does no I/O.

This module knows only enough of SQL to see in which kind of piece a placeholder is (rule S9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from connectors.jdbc.syntax import SqlSyntax

PLACEHOLDER = re.compile(r"\{\{([A-Za-z0-9_.$-]+)\}\}")
_DOLLAR = re.compile(r"\$(?:[A-Za-z_\x80-\U0010FFFF][A-Za-z0-9_\x80-\U0010FFFF]*)?\$")
_WORD_CHARACTER = re.compile(r"[A-Za-z0-9_$\x80-\U0010FFFF]")
_LINE = re.compile(r"[^\n]*")


class SqlTextError(ValueError):
    """A statement cannot be cut into pieces; the message begins with a verb, such as "has"."""


class SqlPart(Enum):
    """The kind of a piece of a statement."""

    CODE = "code"
    TEXT = "text"
    NAME = "name"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class SqlPiece:
    """A piece of a statement in its original text, including its quotes.

    ``opening`` is the mark at its beginning, such as a quote or a dollar quote. If ``escapes`` is
    true, a backslash in the piece escapes. A placeholder in code is a piece of its own
    (``is_placeholder``); a placeholder in a text, name or comment stays a part of that piece.
    """

    part: SqlPart
    text: str
    opening: str = ""
    escapes: bool = False
    is_placeholder: bool = False


def pieces(sql: str, syntax: SqlSyntax) -> tuple[SqlPiece, ...]:
    """Return the pieces of a statement; joined they are the statement.

    Raises:
        SqlTextError: a text, a name or a comment has no end, or DIL does not understand a kind of
            text.
    """
    return tuple(_Cutter(sql, syntax).pieces())


def statements(cut: tuple[SqlPiece, ...]) -> int:
    """Return the number of statements, which semicolons separate."""
    count, is_there = 0, False
    for piece in cut:
        if piece.part is SqlPart.COMMENT:
            continue
        if piece.part is not SqlPart.CODE or piece.is_placeholder:
            is_there = True
            continue
        for part in re.split("(;)", piece.text):
            if part == ";":
                count, is_there = count + is_there, False
            elif part.strip():
                is_there = True
    return count + is_there


def words(cut: tuple[SqlPiece, ...]) -> list[str]:
    """Return the words of the code in lower case: keywords and plain names, in order."""
    found: list[str] = []
    for piece in cut:
        if piece.part is SqlPart.CODE and not piece.is_placeholder:
            found += re.findall(r"[a-z_]+", piece.text.lower())
    return found


class _Cutter:
    def __init__(self, sql: str, syntax: SqlSyntax) -> None:
        self._sql = sql
        self._syntax = syntax
        self._at = 0

    def pieces(self) -> list[SqlPiece]:
        found: list[SqlPiece] = []
        code = 0
        while self._at < len(self._sql):
            begin = self._at
            piece: SqlPiece | None
            if match := PLACEHOLDER.match(self._sql, begin):
                piece = SqlPiece(SqlPart.CODE, match.group(), is_placeholder=True)
                self._at = match.end()
            else:
                piece = self._comment() or self._quoted() or self._dollar_quoted()
            if piece is None:
                self._at += 1
                continue
            if begin > code:
                found.append(SqlPiece(SqlPart.CODE, self._sql[code:begin]))
            found.append(piece)
            code = self._at
        if code < len(self._sql):
            found.append(SqlPiece(SqlPart.CODE, self._sql[code:]))
        return found

    def _comment(self) -> SqlPiece | None:
        """Return the comment that begins here, and move past it; None if none begins here."""
        rest = self._sql[self._at : self._at + 3]
        is_dashed = rest.startswith("--") and not (
            self._syntax.dashes_need_blank and rest[2:].strip()
        )
        if is_dashed or (self._syntax.hashes and rest.startswith("#")):
            line = _LINE.match(self._sql, self._at)
            return self._taken(SqlPart.COMMENT, line.end() if line else len(self._sql))
        if not rest.startswith("/*"):
            return None
        if self._syntax.executable and self._sql[self._at + 2 :].startswith(("!", "M!")):
            raise SqlTextError("has a comment of the form /*! */, which MySQL runs")
        return self._taken(SqlPart.COMMENT, self._end_of_block())

    def _end_of_block(self) -> int:
        depth, at = 0, self._at
        while at < len(self._sql):
            if self._sql.startswith("/*", at) and (depth == 0 or self._syntax.nested):
                depth, at = depth + 1, at + 2
            elif self._sql.startswith("*/", at):
                depth, at = depth - 1, at + 2
                if depth == 0:
                    return at
            else:
                at += 1
        raise SqlTextError("has a comment without an end")

    def _quoted(self) -> SqlPiece | None:
        """Return the text or name in quotes that begins here, and move past it; else None."""
        mark = self._sql[self._at]
        if mark == "'" or (mark == '"' and self._syntax.double_quoted_texts):
            # The letter directly before the quote, if it is a word of its own.
            before = self._sql[max(0, self._at - 2) : self._at]
            is_longer = len(before) > 1 and _WORD_CHARACTER.match(before[0])
            prefix = before[-1] if before[-1:].isalpha() and not is_longer else ""
            if prefix and prefix in self._syntax.refused:
                raise SqlTextError(f"has a text of the form {prefix}'...'")
            escapes = self._syntax.backslashes or bool(prefix and prefix in self._syntax.prefixed)
            return self._taken(
                SqlPart.TEXT, self._end_of(mark, escapes=escapes), mark, escapes=escapes
            )
        for opening, closing in self._syntax.names:
            if mark == opening:
                return self._taken(SqlPart.NAME, self._end_of(closing, escapes=False), mark)
        return None

    def _end_of(self, mark: str, *, escapes: bool) -> int:
        at = self._at + 1
        while at < len(self._sql):
            if escapes and self._sql[at] == "\\":
                at += 2
            elif self._sql[at] != mark:
                at += 1
            elif self._sql.startswith(mark, at + 1):
                at += 2
            else:
                return at + 1
        raise SqlTextError(f"has a {mark} without its counterpart")

    def _dollar_quoted(self) -> SqlPiece | None:
        """Return the text in dollar quotes that begins here, and move past it; else None."""
        if not self._syntax.dollars or self._sql[self._at] != "$":
            return None
        if self._at and _WORD_CHARACTER.match(self._sql[self._at - 1]):
            return None
        match = _DOLLAR.match(self._sql, self._at)
        if match is None:
            return None
        end = self._sql.find(match.group(), match.end())
        if end < 0:
            raise SqlTextError(f"has a {match.group()} without its counterpart")
        return self._taken(SqlPart.TEXT, end + len(match.group()), match.group())

    def _taken(
        self, part: SqlPart, end: int, opening: str = "", *, escapes: bool = False
    ) -> SqlPiece:
        piece = SqlPiece(part, self._sql[self._at : end], opening, escapes)
        self._at = end
        return piece
