"""Reads the JSON of a property into its model, and reports all its problems at once.

pydantic validates models; its errors become findings with the place of each member and the nearest
known name. Findings repeat no value, except words that are not allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, get_args, get_type_hints

from dil.model.json import JsonValue, as_text
from dil.model.members import MemberError, Setting
from dil.model.messages import known_words, nearest, quote
from dil.model.secret import Secret

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=Setting)
Finding = tuple[str, str]

_MISSING_FIX = (
    "Correct the path; a relative one starts at the folder of the job file. Nothing is wrong if the"
    " file is on every machine that runs tasks."
)
_NO_TEXT = ("is no text", 'Write a text: "...".')
_NO_OBJECT = ("is no object", "Write {...}.")
_PLAIN: Mapping[str, Finding] = {
    "string_type": _NO_TEXT,
    "string_too_short": _NO_TEXT,
    "is_instance_of": _NO_TEXT,
    "tuple_type": ("is no array", "Write [...]."),
    "dict_type": _NO_OBJECT,
    "dataclass_type": _NO_OBJECT,
    "greater_than_equal": ("is too small", "Write a larger number."),
    "too_long": ("has too many items", "Write fewer items."),
}
_WORD = re.compile(r"'([^']*)'")


class ShapeError(ValueError):
    """A JSON value does not have its property's form; holds a (what, fix) for each finding."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__(findings)
        self.findings = findings


class ReadContext(Protocol):
    """The context of a reader; ``zone`` is the time zone of texts that name none."""

    @property
    def zone(self) -> str:
        """The time zone of the job."""

    @property
    def folder(self) -> Path:
        """The absolute folder of the job file, where relative paths start."""

    @property
    def file_system(self) -> str:
        """The file system of paths that name none, a URI; empty for this machine."""

    @property
    def notice(self) -> Callable[[str, str], None]:
        """A function that takes a notice about an odd but valid value, and what to do."""

    def secret(self, text: str, where: str = "") -> Secret:
        """Return the secret that a text means; raise ShapeError if it cannot be read."""

    def is_reference(self, text: str) -> bool:
        """Return whether a text refers to a secret: ENC(...), env:NAME and other references."""

    def local_path(self, text: str) -> str:
        """Return the absolute local path that a text names; raise ValueError if it names none.

        A relative path starts at ``folder``.
        """

    def require_password(self, what: str) -> None:
        """Raise ShapeError if no password is set, or only give a notice if none is needed."""


def note_missing(path: str, notice: Callable[[str, str], None], where: str = "") -> None:
    """Give a notice if this machine lacks a file; other machines that run tasks may have it."""
    try:
        is_there = Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a zero byte
        is_there = False
    if not is_there:
        notice(f"{where}names {path}, which is not on this machine", _MISSING_FIX)


def as_object(value: JsonValue, where: str = "") -> Mapping[str, JsonValue]:
    """Check that a JSON value is an object, and return it.

    Raises:
        ShapeError: the value has another type.
    """
    if not isinstance(value, Mapping):
        raise ShapeError((f"{where} is no JSON object".strip(), "Write {...}."))
    return value


def as_array(value: JsonValue, where: str = "") -> list[JsonValue]:
    """Return a JSON array as a list.

    Raises:
        ShapeError: the value has another type.
    """
    if not isinstance(value, list):
        raise ShapeError((f"{where} is no JSON array".strip(), "Write [...]."))
    return value


def unknown_members(
    members: Iterable[str], known: Sequence[str], where: str = ""
) -> Iterator[Finding]:
    """Yield a finding for each member of an object that is not known."""
    subject = f"{where} " if where else ""
    for member in members:
        if member not in known:
            fix = nearest(member, known, f"Known members: {', '.join(known)}.")
            yield f'{subject}has the unknown member "{member}"', fix


def is_scalar(value: JsonValue) -> bool:
    """Return whether a value is neither array nor object."""
    return not isinstance(value, list | Mapping)


def texts(members: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the members with numbers and booleans as text (rule F10)."""
    return {
        name: as_text(value) if value is not None and is_scalar(value) else value
        for name, value in members.items()
    }


def build(model: type[M], members: Mapping[str, object], where: str = "") -> M:
    """Return the model of a JSON object.

    Raises:
        ShapeError: one finding per wrong, missing or unknown member; values are not repeated.
    """
    findings: list[Finding] = []
    found = read_model(model, members, where, findings)
    if found is None:
        # A missing member that is only misspelled is no finding of its own.
        meant = {fix.removeprefix("Did you mean ").removesuffix("?") for _, fix in findings}
        raise ShapeError(
            *((what, fix) for what, fix in findings if fix.removeprefix("Add ")[:-1] not in meant)
        )
    return found


def each(items: Iterable[JsonValue], read: Callable[[JsonValue, str], M]) -> tuple[M, ...]:
    """Return the results of ``read`` for all items, and collect the findings of all items.

    Raises:
        ShapeError: at least one item is wrong.
    """
    found: list[M] = []
    findings: list[tuple[str, str]] = []
    for index, item in enumerate(items):
        try:
            found.append(read(item, f"[{index}]"))
        except ShapeError as error:
            findings.extend(error.findings)
    if findings:
        raise ShapeError(*findings)
    return tuple(found)


def read_model(
    model: type[M], members: Mapping[str, object], where: str, findings: list[Finding]
) -> M | None:
    """Return the model of a JSON object; None if anything is wrong with it.

    Appends one finding (what, fix) per wrong, missing or unknown member: known members in the
    model's order, then unknown members in the order written. Findings repeat no value, except words
    that are not allowed.
    """
    from pydantic import ValidationError  # takes longer than a plan without JSON properties

    try:
        found: M = adapter(cast("Any", model)).validate_python(members)
    except ValidationError as error:
        findings.extend(_finding(model, each, where) for each in error.errors(include_url=False))
        return None
    return found


def json_name(field: Any) -> str:  # a dataclass's Field of whatever type
    """Return the name of a model's field in JSON."""
    return str(field.metadata.get("alias", field.name))


@cache
def adapter(model: Any) -> TypeAdapter[Any]:  # mypy takes no model for hashable
    """Return pydantic's reader of a model or a section."""
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def _finding(model: type[Setting], error: ErrorDetails, where: str) -> Finding:
    # Names have dots between them, positions are in brackets.
    steps = error["loc"]
    inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    place = f"{where}{inside}".lstrip(".")
    wrong = error.get("ctx", {}).get("error")
    if isinstance(wrong, MemberError):
        return f"{place} {wrong.what}", wrong.fix
    match error["type"]:
        case "missing":
            return f'lacks the member "{place}"', f'Add "{steps[-1]}".'
        case "unexpected_keyword_argument":
            known = _known_members(model, steps[:-1])
            fix = nearest(str(steps[-1]), known, f"Known members: {', '.join(known)}.")
            return f'has an unknown member "{place}"', fix
        case "literal_error":
            words = _WORD.findall(error["ctx"]["expected"])
            text = as_text(error["input"])
            return f"{place} is {quote(text)}", known_words(text, words)
        case plain:
            what, fix = _PLAIN[plain]
            return f"{place} {what}", fix


def _known_members(model: type[Setting], steps: Sequence[int | str]) -> list[str]:
    """Return the member names that are allowed at a place inside a model."""
    for step in steps:
        name = next(field.name for field in fields(model) if json_name(field) == step)
        model = next(inner_models(get_type_hints(model)[name]))
    return [json_name(field) for field in fields(model)]


def inner_models(annotation: object) -> Iterator[type[Setting]]:
    """Yield the models in a type, which may be a union or a container."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Setting):
            yield each
