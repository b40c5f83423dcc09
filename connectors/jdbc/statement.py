"""Puts the values of one request into ``ms.jdbc.statement`` (rule S9); does no I/O.

A value can never become SQL. If its place is inside a text, its quotes are doubled. If its place is
in a name, it must consist of letters, digits, _, $ and dots. Anywhere else it is bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, lru_cache

from connectors.jdbc.sql_text import (
    PLACEHOLDER,
    SqlPart,
    SqlPiece,
    SqlTextError,
    pieces,
    words,
)
from connectors.jdbc.syntax import SqlSyntax
from dil.errors import ConfigError
from dil.model.json import JsonValue, as_text
from dil.sections.source import STATEMENT

_NAME = re.compile(r"[A-Za-z0-9_$.]+")
_NAME_CHARACTER = re.compile(r"[A-Za-z0-9_$.\x80-\U0010FFFF]")
_AS_NAME = re.compile(r"(?i)(?<![\w$.])(?:from|join|into|update|table)\s*\Z")
_DISTINCT_FROM = re.compile(r"(?i)\bdistinct\s+from\s*\Z")
_WORD_OR_NUMBER = re.compile(r"\w*|[-+]?\d+(?:\.\d*)?")
_LITERAL = r"\s*(?:[-+]?\d+(?:\.\d+)?|'(?:[^']|'')*')\s*"
_LITERALS = re.compile(rf"{_LITERAL}(?:,{_LITERAL})+|\s*'.*'\s*", re.DOTALL)
_IN_LIST = re.compile(r"(?i)(?<![\w$.@])in\s*\((?!\s*(?:select|with)\b)(?:[^()]*,)?\s*\Z")
_SORTED_BY = re.compile(r"(?i)(?<![\w$.@])(?:order|group)\s+by\s*\Z")
# What follows a sort key; anything else makes it a part of an expression.
_SORT_KEY_END = re.compile(
    r"(?i)\s*(?:\Z|[,)]|(?:asc|desc|nulls|having|order|window|limit|offset|fetch|with|rows|range"
    r"|groups|union)\b)"
)
_CONDITION = re.compile(r"(?i)(?<![\w$.@])(?:where|having|on|and|or|not)[\s(]*\Z")
_CONDITION_END = re.compile(
    r"(?i)[\s)]*(?:\Z|(?<![\w$.@])(?:and|or|where|join|inner|left|right|full|cross|group|order"
    r"|having|window|limit|offset|fetch|union)\b)"
)
_BETWEEN = re.compile(
    r"(?is)(?<![\w$.@])between\b(?:(?!(?<![\w$.@])(?:and|or|where)\b).)*\band[\s(]*\Z"
)
_INNERMOST = re.compile(
    r"(?is)\([^()]*\)|(?<![\w$.@])case\b(?:(?!(?<![\w$.@])(?:case|end)\b).)*\bend\b"
)
_LAST_ORDER = re.compile(r"(?is).*(?<![\w$.@])(?P<end>order\s+by)\b")
_LAST_LIMIT = re.compile(r"(?is).*(?<![\w$.@])(?P<end>limit)\b")
# SQL Server's limit behind SELECT: TOP 10, TOP (10) PERCENT WITH TIES.
_TOP = re.compile(
    r"(?is)\s*select\s+(?:(?:all|distinct)\s+)?"
    r"(?P<top>top\s*(?:\(\s*\)|\s[0-9]+)(?:\s+percent\b)?(?:\s+with\s+ties\b)?)"
)
_TOP_WORD = re.compile(r"(?i)(?<![\w$.@])top\s*(?:\(|\s[0-9])")
_SELECT = re.compile(r"(?i)(?<![\w$.@])select\b")
# Things that outlive a transaction: MySQL's @variables, and locks that are taken by name.
_OUTLIVING = re.compile(r"(?i)(?<![@<])@(?:[\w.$`]|\Z)|lock")
_GROUPING = {"group", "distinct", "union", "intersect", "except", "minus", "over"}
# The functions whose arguments may contain FROM.
_FROM_FUNCTIONS = {"extract", "substring", "trim", "overlay", "position"}
_READING = {"select", "with", "values", "table", "show", "explain", "describe", "desc", "pragma",
            "from", "summarize"}  # fmt: skip
_WRITING = {"insert", "update", "delete", "merge"}
# Other first words of a statement that one of the databases knows.
_OTHERS = {"alter", "analyze", "attach", "begin", "call", "check", "checkpoint", "close", "cluster",
           "comment", "commit", "copy", "create", "dbcc", "deallocate", "declare", "detach",
           "discard", "do", "drop", "exec", "execute", "export", "fetch", "flush", "force", "grant",
           "handler", "help", "if", "import", "install", "kill", "listen", "load", "lock", "move",
           "notify", "open", "optimize", "pivot", "prepare", "print", "reassign", "refresh",
           "reindex", "release", "rename", "repair", "replace", "reset", "restore", "revoke",
           "rollback", "savepoint", "security", "set", "start", "truncate", "unlisten", "unlock",
           "unpivot", "use", "vacuum", "waitfor", "while"}  # fmt: skip

Bind = Callable[[JsonValue], str]
"""Takes a value that is to be bound and returns its placeholder in the statement."""


class Statement:
    """A statement with placeholders.

    Raises:
        SqlTextError: the statement cannot be cut into pieces.
    """

    def __init__(self, sql: str, syntax: SqlSyntax) -> None:
        self._pieces = _without_end(pieces(sql, syntax))
        self._has_tops = syntax.tops

    @cached_property
    def template(self) -> str:
        """Return the statement's text without a semicolon at its end."""
        return "".join(piece.text for piece in self._pieces)

    @cached_property
    def reads(self) -> bool:
        """Return whether the words of the statement show that it is a query."""
        found = words(self._pieces)
        if not found or found[0] not in _READING:
            return False
        return found[0] != "with" or not _WRITING & set(found)

    @cached_property
    def is_query(self) -> bool:
        """Return whether the statement can be put in parentheses, as a table of another query."""
        found = words(self._pieces)
        return self.reads and found[0] in {"select", "with", "values", "table", "from"}

    @cached_property
    def ends_with_transaction(self) -> bool:
        """Return whether the statement's words show that its effects end with the transaction."""
        code = (each.text for each in self._pieces if each.part is SqlPart.CODE)
        return self.is_query and not any(map(_OUTLIVING.search, code))

    @property
    def groups(self) -> bool:
        """Return whether the words show that one row of the result may combine several rows.

        If so, a database may have to read all rows to find one row of the result.
        """
        return bool(_GROUPING & set(words(self._pieces)))

    @property
    def unlimited(self) -> str | None:
        """Return the query without its last ORDER BY and LIMIT, and without its TOP.

        Return None if the query has none of them, or if its limit cannot be removed alone.
        """
        if not self.is_query:
            return None
        code = _outer_code(self._pieces)
        end = _LAST_ORDER.match(code) or _LAST_LIMIT.match(code)
        if self._has_tops:
            return self._without_top(code, end.start("end") if end else None)
        return self.template[: end.start("end")] if end else None

    def _without_top(self, code: str, end: int | None) -> str | None:
        """Return the query up to ``end`` without TOP; None if it has several TOP."""
        top = _TOP.match(code)
        count = len(_TOP_WORD.findall(code))
        if words(self._pieces)[0] == "with" or count > 1 or (count == 1 and top is None):
            return None
        if top is None:
            return None if end is None else self.template[:end]
        if len(_SELECT.findall(code)) > 1:
            return None
        return f"{self.template[: top.start('top')]} {self.template[top.end('top') : end]}"

    def bound(
        self,
        variables: Mapping[str, JsonValue],
        bind: Bind,
        written: Callable[[str], str] = lambda code: code,
    ) -> str:
        """Return the SQL of one request.

        Args:
            variables: The values of placeholders.
            bind: Receives each bound value, in order.
            written: Converts the statement's own text, for example doubles its percent signs.

        Raises:
            ConfigError: a placeholder has no value, or its place does not allow the value.
        """
        parts: list[str] = []
        for number, piece in enumerate(self._pieces):
            if piece.is_placeholder:
                value = _value(piece.text[2:-2], variables)
                parts.append(self._in_code(number, value, bind))
            elif piece.part is SqlPart.COMMENT:
                parts.append(written(piece.text))
            else:
                parts.append(written(_filled(piece, variables)))
        # A comment at the end would hide text that is added behind the statement.
        return "".join(parts) + "\n"

    @cached_property
    def _around(self) -> Mapping[int, tuple[str, str]]:
        """The code before and behind each placeholder, which is the same for all requests."""
        return {
            number: (_code(self._pieces[:number]), _code(self._pieces[number + 1 :]))
            for number, piece in enumerate(self._pieces)
            if piece.is_placeholder
        }

    def _in_code(self, number: int, value: JsonValue, bind: Bind) -> str:
        name = self._pieces[number].text
        before = self._pieces[number - 1] if number else None
        after = self._pieces[number + 1] if number + 1 < len(self._pieces) else None
        if (before is not None and _touches(before, -1)) or (
            after is not None and _touches(after, 0)
        ):
            return _as_name(name, value)
        text = as_text(value)
        if self._is_whole_name(number) and isinstance(value, str) and _NAME.fullmatch(text):
            return text
        if isinstance(value, list | tuple):
            if not value:
                raise _wrong(f"{name} is an empty list, for which SQL has no form")
            if any(isinstance(each, list | tuple | Mapping) for each in value):
                raise _wrong(
                    f"{name} is a list with values that are neither text, number nor boolean"
                )
            return ", ".join(f" {bind(each)} " for each in value)
        if isinstance(value, str):
            self._refuse_sql(number, value)
        # Blanks separate a minus or a quote from the neighbouring text.
        return f" {bind(value)} "

    def _refuse_sql(self, number: int, value: str) -> None:
        """Refuse a text that is SQL where LinkedIn's DIL puts it in, and that would be bound.

        Some databases take the bound text for 0, false or a constant: rows would be missing, or
        in no order, without an error.
        """
        name, (before, after) = self._pieces[number].text, self._around[number]
        if _SORTED_BY.search(before) and _SORT_KEY_END.match(after):
            raise _wrong(
                f"{name} is bound as a text, which sorts and groups nothing",
                f'Write "{name}", in the quotes that the database has for names. Leave out a'
                " constant.",
            )
        if _IN_LIST.search(before) and _LITERALS.fullmatch(value):
            raise _wrong(
                f"the value of {name} is one text that holds the values of a list",
                'Make it an array, as in "type": "jsonarray", "value": [1, 2, 3] of ms.parameters.'
                f" If it is one value, write '{name}', in quotes.",
            )
        if (
            not _WORD_OR_NUMBER.fullmatch(value)
            and _CONDITION.search(before)
            and not _BETWEEN.search(_flat(before))
            and _CONDITION_END.match(after)
        ):
            raise _wrong(
                f"{name} is a condition, and its value would be bound as a text",
                "Write the condition into the statement, with a placeholder for each value.",
            )

    def _is_whole_name(self, number: int) -> bool:
        """Return whether only the name of a table can be in a placeholder's place."""
        code = self._around[number][0]
        if not _AS_NAME.search(code) or _DISTINCT_FROM.search(code):
            return False
        return _function_around(code) not in _FROM_FUNCTIONS


@lru_cache(maxsize=64)  # All work units of a task run the same statement.
def parsed_statement(sql: str, syntax: SqlSyntax) -> Statement:
    """Return the statement of a job.

    Raises:
        ConfigError: the statement cannot be cut into pieces.
    """
    try:
        return Statement(sql, syntax)
    except SqlTextError as error:
        raise _wrong(str(error)) from None


def misspelt(cut: Sequence[SqlPiece]) -> tuple[str, str] | None:
    """Return a misspelt first word of a statement and the nearest right word, else None."""
    found = words(tuple(cut))[:1]
    known = _READING | _WRITING | _OTHERS
    if not found or found[0] in known:
        return None
    near = get_close_matches(found[0], sorted(known), n=1, cutoff=0.75)
    return (found[0], near[0]) if near else None


def names_in(sql: str) -> set[str]:
    """Return the names of all placeholders of a statement."""
    return set(PLACEHOLDER.findall(sql))


def _without_end(cut: Sequence[SqlPiece]) -> tuple[SqlPiece, ...]:
    """Return the pieces without a semicolon at the end, which drivers refuse."""
    kept = list(cut)
    for number in reversed(range(len(kept))):
        piece = kept[number]
        if piece.part is SqlPart.COMMENT:
            continue
        if piece.part is SqlPart.CODE and not piece.is_placeholder:
            end = re.search(r"[\s;]*\Z", piece.text)
            at = end.start() if end else len(piece.text)
            kept[number] = SqlPiece(
                SqlPart.CODE, piece.text[:at] + piece.text[at:].replace(";", "")
            )
            if not at:
                continue
        break
    return tuple(piece for piece in kept if piece.text)


def _code(cut: Sequence[SqlPiece]) -> str:
    """Return the code without comments; an x replaces each text, name and placeholder."""
    return "".join(
        piece.text if piece.part is SqlPart.CODE and not piece.is_placeholder else " x "
        for piece in cut
        if piece.part is not SqlPart.COMMENT
    )


def _flat(code: str) -> str:
    """Return code with an x for each complete pair of parentheses and each complete CASE."""
    count = 1
    while count:
        code, count = _INNERMOST.subn(" x ", code)
    return code


def _outer_code(cut: Sequence[SqlPiece]) -> str:
    """Return the code outside of parentheses; a blank replaces each other part."""
    code = "".join(
        piece.text
        if piece.part is SqlPart.CODE and not piece.is_placeholder
        else " " * len(piece.text)
        for piece in cut
    )
    depth, outer = 0, []
    for character in code:
        depth -= character == ")"
        outer.append(character if depth == 0 else " ")
        depth += character == "("
    return "".join(outer)


def _touches(piece: SqlPiece, end: int) -> bool:
    """Return whether a neighbour continues a name: by a letter, a dot, or as a quoted name."""
    if piece.is_placeholder or piece.part is SqlPart.NAME:
        return True
    return piece.part is SqlPart.CODE and bool(_NAME_CHARACTER.match(piece.text[end]))


def _function_around(code: str) -> str:
    """Return the word before the parenthesis that is still open at the end of some code."""
    depth = 0
    for at in range(len(code) - 1, -1, -1):
        if code[at] == ")":
            depth += 1
        elif code[at] == "(":
            if depth == 0:
                match = re.search(r"([A-Za-z_]+)\s*\Z", code[:at])
                return match.group(1).lower() if match else ""
            depth -= 1
    return ""


def _filled(piece: SqlPiece, variables: Mapping[str, JsonValue]) -> str:
    """Return a text or a quoted name with its placeholders replaced."""

    def replacement(match: re.Match[str]) -> str:
        name, value = match.group(), _value(match.group(1), variables)
        if piece.part is SqlPart.NAME:
            return _as_name(name, value)
        text = as_text(value)
        if "\x00" in text:
            raise _wrong(f"{name} holds a character with the code 0, which an SQL text cannot hold")
        if piece.opening.startswith("$"):
            if "$" in text:
                raise _wrong(
                    f"the value of {name} has a dollar sign, and its placeholder is in a dollar"
                    " quote"
                )
            return text
        if piece.escapes:
            text = text.replace("\\", "\\\\")
        return text.replace(piece.opening, piece.opening * 2)

    if piece.part is SqlPart.CODE:
        return piece.text
    return PLACEHOLDER.sub(replacement, piece.text)


def _as_name(name: str, value: JsonValue) -> str:
    text = as_text(value)
    if isinstance(value, list | tuple | Mapping) or not _NAME.fullmatch(text):
        raise _wrong(
            f"{name} is a part of a name, and its value has other characters than letters, digits,"
            " _, $ and the dot",
            "Write the placeholder outside of a name: then DIL binds its value.",
        )
    return text


def _value(name: str, variables: Mapping[str, JsonValue]) -> JsonValue:
    if name not in variables:
        raise _wrong(
            f"needs {{{{{name}}}}}, which has no value in this request",
            "Declare the variable in ms.parameters. A session key needs an initValue in"
            " ms.session.key.field, page values need initialvalues in ms.pagination.",
        )
    return variables[name]


def _wrong(what: str, fix: str = "") -> ConfigError:
    return ConfigError.single(STATEMENT, what, fix)
