"""The effective properties of a job: parsed, defaulted, immutable."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar, cast

from dil.errors import Origin
from dil.model.secret import Secret
from dil.model.section import Section, property_name

T = TypeVar("T")
S = TypeVar("S", bound=Section)


class Properties(Mapping[str, object]):
    """Typed values by property name; every property of the table is present.

    A blank property has its default. JSON properties have their frozen model, secrets have a
    Secret. ``explicit`` names the properties that the user wrote. The object pickles, and never
    prints a value.
    """

    __slots__ = ("_opened", "_origins", "_packed", "_values", "explicit")

    def __init__(
        self,
        values: Mapping[str, object],
        origins: Mapping[str, Origin] | None = None,
        sections: Iterable[Section] = (),
    ) -> None:
        self._opened: dict[type, Section] = {type(each): each for each in sections}
        self._packed: list[bytes] = []
        self._values = {**values, **dict(_values(self._sections.values()))}
        self._origins = dict(origins or {})
        self.explicit = frozenset(self._origins)

    def __getstate__(self) -> tuple[object, ...]:
        # Sections of the user's own classes are unpickled on first use: a worker has their folder
        # on its import path only after it has read the job.
        sections = [pickle.dumps(each) for each in self._sections.values()]
        return self._values, self._origins, self.explicit, sections

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._values, self._origins, self.explicit, self._packed = state
        self._opened = {}

    @property
    def _sections(self) -> dict[type, Section]:
        if self._packed:
            opened = [pickle.loads(each) for each in self._packed]  # noqa: S301 - our own
            self._opened |= {type(each): each for each in opened}
            self._packed = []
        return self._opened

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Properties({len(self)} names)"

    def without_secrets(self, *prefixes: str) -> Properties:
        """Return a copy in which secrets whose name begins with a prefix are unset."""
        return self._having(
            {
                name: None
                for name, value in self._values.items()
                if isinstance(value, Secret) and name.startswith(prefixes)
            }
        )

    def having(self, name: str, value: object) -> Properties:
        """Return a copy in which one property has another value."""
        return self._having({name: value})

    def _having(self, changed: Mapping[str, object]) -> Properties:
        sections = []
        for section in self._sections.values():
            own = {
                field: changed[name]
                for field, name in _names(cast("Any", type(section)))
                if name in changed
            }
            sections.append(replace(section, **own) if own else section)
        return Properties({**self._values, **changed}, self._origins, sections)

    def only(self, kinds: Iterable[type[Section]], names: Iterable[str]) -> Properties:
        """Return a copy with only some sections and properties of the job."""
        sections = [self.section(kind) for kind in kinds]
        values = {name: self._values[name] for name in names}
        known = {*values, *dict(_values(sections))}
        origins = {name: origin for name, origin in self._origins.items() if name in known}
        return Properties(values, origins, sections)

    def sections(self) -> tuple[Section, ...]:
        """Return all sections of the job."""
        return tuple(self._sections.values())

    def section(self, kind: type[S]) -> S:
        """Return the section of a class; a section of defaults if the job has none."""
        found = self._sections.get(kind)
        return found if isinstance(found, kind) else kind()

    def origin(self, name: str) -> Origin | None:
        """Return the place where the user wrote the property; None for a default."""
        return self._origins.get(name)

    def is_overruled(self, name: str, by: str) -> bool:
        """Return whether ``-D`` sets the property ``by`` for one run, but not ``name``."""
        return self.is_of_one_run(by) and not self.is_of_one_run(name)

    def is_of_one_run(self, *names: str) -> bool:
        """Return whether ``-D`` sets one of these properties, or a part of one, for one run."""
        origins = map(self.origin, names)
        return any(origin is not None and origin.is_of_one_run for origin in origins)

    def typed(self, name: str, kind: type[T]) -> T:
        """Return the value of a property that the table declares as ``kind``."""
        value = self._values[name]
        if not isinstance(value, kind):
            raise TypeError(f"{name} holds {type(value).__name__}, not {kind.__name__}")
        return value

    def text(self, name: str) -> str:
        """Return a text property; empty text if it is unset and has no default."""
        value = self._values[name]
        return "" if value is None else self.typed(name, str)

    def integer(self, name: str) -> int:
        """Return an int or long property."""
        return self.typed(name, int)

    def optional_integer(self, name: str) -> int | None:
        """Return an int or long property; None if it is unset."""
        value = self._values[name]
        return None if value is None else self.typed(name, int)

    def milliseconds(self, name: str) -> int:
        """Return a duration property in ms; 0 if it is unset."""
        return self.optional_integer(name) or 0

    def boolean(self, name: str) -> bool:
        """Return a bool property."""
        return self.typed(name, bool)

    def secret(self, name: str) -> Secret | None:
        """Return a secret property; None if it is unset."""
        value = self._values[name]
        return None if value is None else self.typed(name, Secret)


def _values(sections: Iterable[Section]) -> Iterator[tuple[str, object]]:
    for section in sections:
        for field, name in _names(cast("Any", type(section))):
            value = getattr(section, field)
            # A text that is not set is empty in its section, and None here.
            yield name, None if value == "" else value


@cache
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a section's class, each with its property."""
    return tuple((each.name, property_name(each)) for each in fields(kind))
