"""What the readers of JSON properties share: their surroundings, their error, model building."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast, get_args, get_origin

from pydantic import ValidationError

from dil.config.findings import known_words, nearest, quote
from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret
from dil.model.settings import Setting
from dil.secrets import SecretError, SecretResolver, is_encrypted

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=Setting)

# What is wrong and what to write, by the first word of pydantic's type of a finding.
_WRONG = {
    "int": ("is no whole number", "Write a whole number."),
    "bool": ("is neither true nor false", "Write true or false."),
    "string": ("is no text", 'Write a text: "...".'),
    "tuple": ("is no array", "Write [...]."),
    "dict": ("is no object", "Write {...}."),
    "model": ("is no object", "Write {...}."),
    "dataclass": ("is no text", 'Write a text: "...".'),
    "too": ("has too many items", "Write fewer items."),
    "greater": ("is too small", "Write a larger number."),
}


class ShapeError(Exception):
    """A JSON value that does not have its property's form: (what, fix) per finding."""

    def __init__(self, *findings: tuple[str, str]) -> None:
        super().__init__(findings)
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a reader needs beside the value: secrets, the job's zone, a place for notices.

    With ``needs_secrets`` off ENC(...) is not decrypted, which takes long on purpose, and a secret
    that cannot be read is empty, with a notice.
    """

    resolver: SecretResolver
    zone: str
    notice: Callable[[str, str], None]
    needs_secrets: bool = True

    def secret(self, text: str, where: str = "", *, is_always_read: bool = False) -> Secret:
        """Return the secret a text stands for; ``is_always_read`` decrypts it in any case.

        Raises:
            ShapeError: it cannot be resolved.
        """
        try:
            if self.needs_secrets or is_always_read or not is_encrypted(text):
                return self.resolver.resolve(text)
            self.resolver.check(text)
        except SecretError as error:
            what = f"{where} {error.what}".strip()
            if self.needs_secrets:
                raise ShapeError((what, error.fix)) from error
            self.notice(f"{what}; a run would refuse it", error.fix)
        return Secret("")


def as_object(value: JsonValue, where: str = "") -> Mapping[str, JsonValue]:
    """Return a JSON object as it is.

    Raises:
        ShapeError: the value is something else.
    """
    if not isinstance(value, Mapping):
        raise ShapeError((f"{where} is no JSON object".strip(), "Write {...}."))
    return value


def as_array(value: JsonValue, where: str = "") -> list[JsonValue]:
    """Return a JSON array as a list.

    Raises:
        ShapeError: the value is something else.
    """
    if not isinstance(value, list):
        raise ShapeError((f"{where} is no JSON array".strip(), "Write [...]."))
    return value


def is_scalar(value: JsonValue) -> bool:
    """Tell whether a value is neither array nor object."""
    return not isinstance(value, list | Mapping)


def texts(members: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the members with numbers and booleans as text (spec README 22)."""
    return {
        name: as_text(value) if value is not None and is_scalar(value) else value
        for name, value in members.items()
    }


def build(model: type[M], members: Mapping[str, object], where: str = "") -> M:
    """Return the model of a JSON object.

    Raises:
        ShapeError: one finding per wrong, missing or unknown member; values are not repeated.
    """
    try:
        return model.model_validate(dict(members))
    except ValidationError as error:
        details = error.errors(include_input=False, include_url=False, include_context=False)
        found = [_finding(model, members, detail, where) for detail in details]
        raise ShapeError(*_without_echoes(found)) from None


def each(items: Iterable[JsonValue], read: Callable[[JsonValue, str], M]) -> tuple[M, ...]:
    """Return every item read, with all findings of all items together.

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


def _without_echoes(found: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the findings but for missing members that stand there misspelled."""
    meant = {fix.removeprefix("Did you mean ").removesuffix("?") for _, fix in found}
    return [(what, fix) for what, fix in found if fix.removeprefix("Add ")[:-1] not in meant]


def _finding(
    model: type[Setting], members: Mapping[str, object], detail: ErrorDetails, where: str
) -> tuple[str, str]:
    location = detail["loc"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    subject = f"{where}{path}".lstrip(".")
    if detail["type"] == "extra_forbidden":
        known = [each.alias or name for name, each in _holder(model, location).model_fields.items()]
        fix = nearest(str(location[-1]), known, f"Known members: {', '.join(known)}.")
        return f'has an unknown member "{subject}"', fix
    if detail["type"] == "missing":
        return f'lacks the member "{subject}"', f'Add "{location[-1]}".'
    if detail["type"] == "literal_error":
        words = _words(_field(_holder(model, location), location[-1]))
        text = as_text(_written(members, location))
        return f"{subject} is {quote(text)}", known_words(text, words)
    kind = detail["type"].partition("_")[0]
    what, fix = _WRONG.get(kind, (f"is refused: {detail['msg']}", "Write another value."))
    return f"{subject} {what}", fix


def _holder(model: type[Setting], location: tuple[int | str, ...]) -> type[Setting]:
    """Return the model that holds the member at a location of pydantic's."""
    for part in location[:-1]:
        if isinstance(part, str) and part in _names(model):
            model = _inner_model(_field(model, part).annotation) or model
    return model


def _names(model: type[Setting]) -> set[str]:
    return {each.alias or name for name, each in model.model_fields.items()}


def _field(model: type[Setting], member: int | str) -> FieldInfo:
    return next(each for name, each in model.model_fields.items() if member in (name, each.alias))


def _inner_model(annotation: object) -> type[Setting] | None:
    """Return the model that an annotation names, by itself or as one branch of a union."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Setting):
            return each
    return None


def _words(member: FieldInfo) -> tuple[str, ...]:
    """Return the allowed words of a member whose type is a Literal, or one or None."""
    branches = (member.annotation, *get_args(member.annotation))
    literals = [get_args(each) for each in branches if get_origin(each) is Literal]
    return next(iter(literals), ())


def _written(members: object, location: tuple[int | str, ...]) -> JsonValue:
    """Return what stands at a location; only the words of Literals are looked at, no secrets."""
    value: object = members
    for part in location:
        if isinstance(value, Mapping) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, Sequence) and isinstance(part, int):
            value = value[part]
    return cast("JsonValue", value)
