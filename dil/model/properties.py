"""The effective properties of a job: parsed, defaulted, immutable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from dil.errors import Origin
from dil.model.secret import Secret

T = TypeVar("T")


class Properties(Mapping[str, object]):
    """Typed values by property name; every property of the table is present.

    A blank property holds its default. JSON properties hold their frozen model, secrets a Secret.
    ``explicit`` names those that the user wrote. Pickles, and never prints a value.
    """

    __slots__ = ("_origins", "_values", "explicit")

    def __init__(
        self, values: Mapping[str, object], origins: Mapping[str, Origin] | None = None
    ) -> None:
        self._values = dict(values)
        self._origins = dict(origins or {})
        self.explicit = frozenset(self._origins)

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Properties({len(self)} names)"

    def without_secrets(self, prefix: str) -> Properties:
        """Return the same properties, secrets whose name begins with ``prefix`` unset."""
        values = {
            name: None if name.startswith(prefix) and isinstance(value, Secret) else value
            for name, value in self._values.items()
        }
        return Properties(values, self._origins)

    def origin(self, name: str) -> Origin | None:
        """Return where the user wrote the property, None for a default."""
        return self._origins.get(name)

    def typed(self, name: str, kind: type[T]) -> T:
        """Return the value of a property that the table declares as ``kind``."""
        value = self._values[name]
        if not isinstance(value, kind):
            raise TypeError(f"{name} holds {type(value).__name__}, not {kind.__name__}")
        return value

    def text(self, name: str) -> str:
        """Return a text property; empty text when it is unset and has no default."""
        value = self._values[name]
        return "" if value is None else self.typed(name, str)

    def integer(self, name: str) -> int:
        """Return an int or long property."""
        return self.typed(name, int)

    def optional_integer(self, name: str) -> int | None:
        """Return an int or long property, None when it is unset."""
        value = self._values[name]
        return None if value is None else self.typed(name, int)

    def milliseconds(self, name: str) -> int:
        """Return a duration property in ms, 0 when it is unset."""
        return self.optional_integer(name) or 0

    def boolean(self, name: str) -> bool:
        """Return a bool property."""
        return self.typed(name, bool)

    def secret(self, name: str) -> Secret | None:
        """Return a secret property, None when it is unset."""
        value = self._values[name]
        return None if value is None else self.typed(name, Secret)
