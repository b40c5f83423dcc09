"""Reads JSON as people write it: strictly, else as leniently as LinkedIn's DIL, with a notice.

See rules F9 and F16.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dil.model.json import JsonValue, compact, read_number

if TYPE_CHECKING:
    import yaml


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_TOO_DEEP = "its brackets are nested too deep"
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
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
_NAME_WITHOUT_BLANK = re.compile(r"([\[{,]\s*(?:[^\W\d]|\$)[\w.$-]*\s*):(?=\S|\Z)")
# The text between a bracket or comma and a string that is a name or a value, and not a part of an
# unquoted text. A quote stands for an earlier string, which is the name.
_BEFORE_STRING = re.compile(r"""\s*(?:(?:"\s*|[^\s:'"][^:'"]*):\s*)?""")
# Half of a surrogate pair: whole pairs and escaped backslashes are found first.
_HALF = re.compile(
    r"\\\\|\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}"
    r"|(?P<half>\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2})"
)
HALF_FIX = "Write both halves, or the character."
_OTHER = "x"  # stands for text that is no bracket and no comma
_BAD_ESCAPE = re.compile(r"""\\(?:u[0-9A-Fa-f]{4}|["'\\/bfnrt])|(\\)""")
_ESCAPE_OR_QUOTE = re.compile(r"""(\\(?:u[0-9A-Fa-f]{4}|["\\/bfnrt]))|\\(')|["\\]""")


class JsonError(ValueError):
    """A text is no JSON, not even leniently; ``line`` counts from 0 inside the text.

    ``has_inner_quote`` says that a quote inside a string seems to end the string too early. ``fix``
    is the advice, empty if the general one helps.
    """

    def __init__(
        self, reason: str, line: int, *, has_inner_quote: bool = False, fix: str = ""
    ) -> None:
        super().__init__(reason, line)
        self.reason = reason
        self.line = line
        self.has_inner_quote = has_inner_quote
        self.fix = fix


def parse(text: str) -> tuple[JsonValue, str]:
    """Return the value, and how the text differs from strict JSON (empty text if it does not).

    Numbers are exact: integers of any length, others as a Decimal that keeps its text.

    Raises:
        JsonError: neither strict nor lenient reading succeeds, or a text holds half of a character,
            which no file and no database can hold.
    """
    value, difference = _read(text)
    half = next((found for found in _HALF.finditer(text) if found["half"]), None)
    if half is not None:
        try:
            compact(value).encode()
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, half.start())
            raise JsonError(rf"{half[0]} is half of a character", line, fix=HALF_FIX) from error
    return value, difference


def _read(text: str) -> tuple[JsonValue, str]:
    try:
        return _strict(text), ""
    except RecursionError as error:
        raise JsonError(_TOO_DEEP, 0) from error
    except ValueError as error:
        first = error
    kept = keep_unknown_escapes(text)
    if kept != text:
        try:
            return _strict(kept), "holds a backslash that JSON does not know; it was kept"
        except ValueError:
            pass
    if isinstance(first, _DuplicateError):
        raise JsonError(str(first), 0) from first
    reason, line = str(first), 0
    if isinstance(first, json.JSONDecodeError):
        reason, line = f"{first.msg[:1].lower()}{first.msg[1:]}", first.lineno - 1
    try:
        return _lenient(kept), f"is no strict JSON ({reason}); it was read leniently"
    except JsonError as error:
        raise JsonError(
            error.reason or reason,
            error.line if error.reason else line,
            has_inner_quote=_ends_at_a_quote(first),
        ) from error
    except RecursionError as error:
        raise JsonError(_TOO_DEEP, 0) from error
    except ValueError as error:  # of a number
        raise JsonError(str(error), line) from error


def _ends_at_a_quote(error: ValueError) -> bool:
    """Return whether text follows right behind a string, as behind a quote that is not escaped."""
    if not isinstance(error, json.JSONDecodeError) or "delimiter" not in error.msg:
        return False
    before, after = error.doc[: error.pos].rstrip(), error.doc[error.pos :]
    return before.endswith('"') and re.match(r"[^\s\[\]{},:\"]|\{\{", after) is not None


class _DuplicateError(ValueError):
    pass


def _members(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _DuplicateError(f'member "{twice}" is given twice')
    return members


def _no_constant(word: str) -> JsonValue:
    raise ValueError(f"{word} is no JSON")


def _strict(text: str) -> JsonValue:
    value: JsonValue = json.loads(
        text,
        parse_float=read_number,
        parse_int=read_number,
        parse_constant=_no_constant,
        object_pairs_hook=_members,
        # Line breaks inside strings come from values that are written over several lines.
        strict=False,
    )
    return value


def _lenient(text: str) -> JsonValue:
    import yaml

    flow = flow_text(text, _for_yaml)
    try:
        for event in yaml.parse(flow, Loader=yaml.SafeLoader):
            has_name = getattr(event, "anchor", None) or getattr(event, "tag", None)
            if isinstance(event, yaml.AliasEvent) or has_name:
                raise JsonError("", 0)  # aliases, anchors and tags are YAML only
        node = yaml.compose(flow, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise JsonError("", 0) from error
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        raise JsonError("", 0)  # a mapping without brackets is YAML only
    return from_node(node, _word)


def _word(text: str) -> JsonValue:
    """Return the value of a word without quotes, with true, false and null in any case."""
    return scalar(text.lower() if text.lower() in _WORDS else text)


def _for_yaml(token: str) -> str:
    """Return a string in either quotes, whose escapes are JSON's, as YAML reads the same text.

    The line breaks inside the string follow it, so that later lines keep their numbers.
    """
    inner = token[1:-1] if token[0] == '"' else token[1:-1].replace("''", "'")
    strict = _ESCAPE_OR_QUOTE.sub(lambda found: found[1] or found[2] or f"\\{found[0]}", inner)
    value: str = json.loads(f'"{strict}"', strict=False)
    plain = (
        each if " " <= each <= "~" and each not in '"\\' else f"\\U{ord(each):08x}"
        for each in value
    )
    return f'"{"".join(plain)}"' + "\n" * token.count("\n")


def scalar(text: str) -> JsonValue:
    """Return the value of a word without quotes: a number, true, false, null, or its text."""
    if text in _WORDS:
        return _WORDS[text]
    return read_number(text) if _NUMBER.fullmatch(text) else text


def from_node(node: yaml.Node | None, word: Callable[[str], JsonValue] = scalar) -> JsonValue:
    """Return the JSON value of a YAML node; ``word`` reads the words without quotes.

    Raises:
        JsonError: a name has no value, is no text, or is given twice.
    """
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [from_node(item, word) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, word)
    if not isinstance(node, yaml.ScalarNode):
        raise JsonError("is empty", 0)
    return word(node.value) if node.style is None else str(node.value)


def _mapping(node: yaml.MappingNode, word: Callable[[str], JsonValue]) -> JsonValue:
    pairs: list[tuple[str, JsonValue]] = []
    for name, value in node.value:
        line = name.start_mark.line
        if not isinstance(name.value, str):
            raise JsonError("a name is no text", line)
        if value.value == "" and value.style is None:
            raise JsonError(f'"{name.value}" has no value', line)
        pairs.append((name.value, from_node(value, word)))
    try:
        return _members(pairs)
    except _DuplicateError as error:
        raise JsonError(str(error), node.start_mark.line) from error


@dataclass(frozen=True, slots=True)
class Balance:
    """The state at the end of a text: the open brackets, and an open string or comment.

    ``end`` is the offset behind the bracket that closes the first bracket, None while it is open.
    ``scanned`` is the offset at which counting continues when text is appended.
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
    """Return the open brackets of JSON-like text, without those in strings and comments.

    If ``before``, the state of an earlier part of the text, is given, only the rest is scanned.
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
    r"""Return a text with the backslash doubled in escapes that JSON does not have (``\\s``)."""

    def in_string(token: re.Match[str]) -> str:
        if token.lastgroup != "double":
            return token[0]
        return _BAD_ESCAPE.sub(lambda bad: r"\\" if bad[1] else bad[0], token[0])

    return _TOKEN.sub(in_string, text)


def flow_text(text: str, string: Callable[[str], str] = str) -> str:
    """Return lenient JSON as YAML flow text with the same number of lines.

    Comments, and tabs between tokens, become blanks; a blank follows each unquoted name. Strings
    that are a name or a value become what ``string`` makes of them and of their quotes.
    """
    parts: list[str] = []
    position, before = 0, _OTHER
    for token in _TOKEN.finditer(text):
        if token.lastgroup not in {"double", "single", "comment"}:
            continue
        plain = text[position : token.start()]
        parts.append(_spaced(plain, before))
        before = re.split(r"[\[{,]", before + plain)[-1]  # since the last bracket or comma
        if token.lastgroup == "comment":
            parts.append(re.sub(r"[^\n]", " ", token[0]))
        else:
            parts.append(string(token[0]) if _BEFORE_STRING.fullmatch(before) else token[0])
            before += '"'
        position = token.end()
    return "".join(parts) + _spaced(text[position:], before)


def _spaced(plain: str, before: str) -> str:
    """Return text without strings and comments with a blank behind each unquoted name.

    ``before`` is the text since the last bracket or comma before it.
    """
    first = _OTHER if before.strip() else ","
    return _NAME_WITHOUT_BLANK.sub(r"\1: ", first + plain.replace("\t", " "))[1:]
