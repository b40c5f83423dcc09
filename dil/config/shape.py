"""What the readers of JSON properties share: their surroundings, their error, model building."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from dil.config.findings import suggestion
from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret
from dil.model.settings import Setting
from dil.secrets import SecretError, SecretResolver

M = TypeVar("M", bound=Setting)

# What to write, by the first word of pydantic's type of a finding.
_FIXES = {
    "int": "Write a whole number.",
    "bool": "Write true or false.",
    "string": "Write a text.",
    "literal": "Write one of these words.",
    "tuple": "Write [...].",
    "dict": "Write {...}.",
    "model": "Write {...}.",
    "too": "Write fewer items.",
}


class ShapeError(Exception):
    """A JSON value that does not have its property's form: (what, fix) per finding."""

    def __init__(self, *findings: tuple[str, str]) -> None:
        super().__init__(findings)
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a reader needs beside the value: secrets, the job's zone, a place for notices."""

    resolver: SecretResolver
    zone: str
    notice: Callable[[str, str], None]

    def secret(self, text: str, where: str) -> Secret:
        """Return the secret a text stands for.

        Raises:
            ShapeError: it cannot be resolved.
        """
        try:
            return self.resolver.resolve(text)
        except SecretError as error:
            raise ShapeError((f"{where} {error.what}", error.fix)) from error


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
        raise ShapeError(
            *(_finding(model, detail["type"], detail["loc"], detail["msg"], where)
              for detail in details)
        ) from None  # fmt: skip


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


def _finding(
    model: type[Setting], kind: str, location: tuple[int | str, ...], message: str, where: str
) -> tuple[str, str]:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    subject = f"{where}{path}".lstrip(".")
    if kind == "extra_forbidden":
        known = [field.alias or name for name, field in model.model_fields.items()]
        name = str(location[-1])
        fix = suggestion(name, known) or f"Known members: {', '.join(known)}."
        return f'has an unknown member "{subject}"', fix
    if kind == "missing":
        return f'lacks the member "{subject}"', f'Add "{location[-1]}".'
    fix = _FIXES.get(kind.partition("_")[0], "Write another value.")
    return f"{subject}: {message[:1].lower()}{message[1:]}", fix
