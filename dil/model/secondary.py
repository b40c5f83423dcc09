"""Secondary input: its declaration, and its rows (docs/secondary-input.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, MinLen

from dil.model.json import JsonObject, JsonValue
from dil.model.members import Setting, Whole, member
from dil.model.secret import Secret


@dataclass(frozen=True, slots=True)
class SecondaryRetry(Setting):
    """How long and how often to wait for a secondary input that does not exist yet."""

    delay_s: Annotated[Whole, Ge(0)] = member(
        "Seconds to wait before each reading.", name="delayInSec", default=300
    )
    count: Annotated[Whole, Ge(0)] = member("Most further readings.", name="retryCount", default=3)


@dataclass(frozen=True, slots=True)
class SecondaryInput(Setting):
    """One entry of ``ms.secondary.input``.

    ``path`` is absolute unless it begins with a variable. If ``retry`` is None, a missing path is
    an error at once.
    """

    path: Annotated[str, MinLen(1)] = member(
        "A file, or a folder that is read with all its subfolders; names that begin with `_` or "
        "`.` are skipped. A relative path starts at the folder of the job file. `{{name}}` is "
        "replaced only in the path of a `payload` entry."
    )
    fields: tuple[str, ...] = member(
        "Columns to take, in this order. A JSONPath such as `$.column.member` takes a value inside "
        "a column, under the last name.",
        default=(),
    )
    filters: dict[str, str] = member(
        "Java regular expressions by column, or by JSONPath into a column: a row counts if the "
        "whole text of each such column matches. Null never matches.",
        default_factory=dict,
    )
    category: Literal["activation", "authentication", "payload", "validation"] = member(
        "The use of the rows.", default="activation"
    )
    format: Literal["binary"] | None = member(
        "For `payload`: binary for whole files; left out for rows.", default=None
    )
    encrypted: bool = member(
        "Whether texts `ENC(...)` in the named fields are decrypted; if not, they are data like "
        "all others. Fields of `authentication` are always decrypted.",
        default=False,
    )
    retry: SecondaryRetry | None = member(
        "Waits for a path that does not exist yet. If left out, a missing path is an error at "
        "once.",
        default=None,
    )

    @property
    def is_opened(self) -> bool:
        """Return whether ENC(...) texts in the fields are to be decrypted."""
        return self.encrypted or self.category == "authentication"


@dataclass(frozen=True, slots=True)
class SecondarySpec:
    """Inputs that a run reads before its source, or together with it.

    If ``parses_json``, texts of the rows that look like JSON are read as JSON. ``most_bytes``
    limits how much of one input the driver reads, 0 for no limit.
    """

    inputs: tuple[SecondaryInput, ...] = ()
    parses_json: bool = False
    most_bytes: int = 1 << 30

    def of(self, category: str) -> tuple[SecondaryInput, ...]:
        """Return the inputs of a category, in the order written."""
        return tuple(each for each in self.inputs if each.category == category)


@dataclass(frozen=True, slots=True)
class SecondaryVariables:
    """Variables that a task adds to its unit's variables; tasks get them, and no state has them.

    ``authentication`` are the fields of the one authentication row, as text. ``unit_secrets`` has,
    by member and text, the plain texts of ENC(...) values in activation rows whose input is
    encrypted. The units themselves, and therefore signatures and state, keep the encrypted text
    (rule S4).
    """

    authentication: Mapping[str, Secret] = field(default_factory=dict)
    unit_secrets: Mapping[tuple[str, str], Secret] = field(default_factory=dict)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Return all secret texts, which must not be printed."""
        return (*self.authentication.values(), *self.unit_secrets.values())

    def used_by(self, unit: JsonObject) -> tuple[Secret, ...]:
        """Return the secret texts in a unit's requests, which must not be printed."""
        given = [(name, value) for name, value in unit.items() if isinstance(value, str)]
        opened = (self.unit_secrets[each] for each in given if each in self.unit_secrets)
        return (*self.authentication.values(), *opened)

    def over(self, unit: JsonObject) -> dict[str, JsonValue]:
        """Return a unit's variables: its members, and the fields of ``authentication``.

        If a member and a field have one name, the field counts (rule G31). The result has secrets
        in plain text, and must not be printed.
        """
        fields = {name: text.reveal() for name, text in self.authentication.items()}
        return {**self.opened(unit), **fields}

    def opened(self, unit: JsonObject) -> dict[str, JsonValue]:
        """Return a unit's members with their secrets in plain text; it must not be printed."""
        return {
            name: self.unit_secrets[name, value].reveal()
            if isinstance(value, str) and (name, value) in self.unit_secrets
            else value
            for name, value in unit.items()
        }


@dataclass(frozen=True, slots=True)
class SecondaryRows:
    """The inputs that were read before planning.

    ``activation`` are the units as compact JSON, each once, in order; None if the job has no
    activation input. ``notes`` are sentences for the run's report.
    """

    activation: tuple[str, ...] | None = None
    variables: SecondaryVariables = field(default_factory=SecondaryVariables)
    notes: tuple[str, ...] = ()
