"""JSON properties as frozen models: one reader per property."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dil.model.json import JsonValue
from dil.spi.reading import Surroundings


def read(name: str, value: JsonValue, around: Surroundings) -> object:
    """Return the model of a JSON property that is not blank; without a reader the JSON itself.

    Raises:
        ShapeError: the value does not have the property's form.
    """
    reader = _READERS.get(name)
    return value if reader is None else reader(value, around)


def empty(name: str) -> object:
    """Return what a blank JSON property holds: its model's defaults, an empty value, or None."""
    make = _EMPTY.get(name)
    return None if make is None else make()


_READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {}
_EMPTY: Mapping[str, Callable[[], object]] = {}
