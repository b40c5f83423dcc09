"""Secondary input: its declaration, and its rows (docs/secondary-input.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dil.model.json import JsonObject, JsonValue
from dil.model.secret import Secret
from dil.model.settings import SecondaryInput


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
        return {name: self._opened(name, value) for name, value in unit.items()}

    def _opened(self, name: str, value: JsonValue) -> JsonValue:
        secret = self.unit_secrets.get((name, value)) if isinstance(value, str) else None
        return value if secret is None else secret.reveal()


@dataclass(frozen=True, slots=True)
class SecondaryRows:
    """The inputs that were read before planning.

    ``activation`` are the units as compact JSON, each once, in order; None if the job has no
    activation input. ``notes`` are sentences for the run's report.
    """

    activation: tuple[str, ...] | None = None
    variables: SecondaryVariables = field(default_factory=SecondaryVariables)
    notes: tuple[str, ...] = ()
