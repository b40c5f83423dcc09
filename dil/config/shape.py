"""What the readers of JSON properties share: their surroundings, their error, model building."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dil.config.members import Finding, read_members
from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret
from dil.model.settings import Setting
from dil.secrets import SecretError, SecretResolver, is_encrypted

M = TypeVar("M", bound=Setting)


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
    findings: list[Finding] = []
    found = read_members(model, members, where, findings)
    if found is None:
        raise ShapeError(*_without_echoes(findings))
    return found


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
