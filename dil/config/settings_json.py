"""JSON properties as frozen models: one reader per property."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dil.config import conversion_json, csv_json, preprocessing
from dil.config.derived_json import derived_fields
from dil.config.schema_columns import primitive
from dil.model.json import JsonValue
from dil.spi.reading import ShapeError, Surroundings, as_object


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


def _default_types(value: JsonValue, around: Surroundings) -> dict[str, str]:
    del around
    found: dict[str, str] = {}
    for name, word in as_object(value).items():
        if not isinstance(word, str):
            raise ShapeError((f'"{name}" has no type', f'For example {{"{name}":"string"}}.'))
        found[name] = primitive(word, f'"{name}"').word
    return found


_READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {
    **conversion_json.READERS,
    **csv_json.READERS,
    **preprocessing.READERS,
    "ms.derived.fields": derived_fields,
    "ms.data.default.type": _default_types,
}
_EMPTY: Mapping[str, Callable[[], object]] = {
    **conversion_json.EMPTY,
    **csv_json.EMPTY,
    **preprocessing.EMPTY,
    "ms.derived.fields": tuple,
    "ms.data.default.type": dict,
}
