"""Cleanses column names (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import SourceContractError
from dil.model.arrow import type_word
from dil.model.schema import JSON
from dil.model.settings import SchemaCleansing
from dil.text.java_regex import compile_java


class NameCleansing:
    """Replaces unwanted characters in the names of one attempt; remembers the original names."""

    def __init__(self, cleansing: SchemaCleansing) -> None:
        self._pattern = compile_java(cleansing.pattern)
        self._replacement = cleansing.replacement
        self._clean: dict[str, str] = {}
        self._sources: dict[tuple[str, str], str] = {}

    def clean(self, name: str) -> str:
        """Return the cleansed name."""
        if name not in self._clean:
            self._clean[name] = self._pattern.sub(lambda _: self._replacement, name)
        return self._clean[name]

    def could_come_from_another(self, name: str) -> bool:
        """Return whether another name could become this cleansed name."""
        return self._replacement in name

    def register(self, names: Iterable[str], path: str) -> bool:
        """Record the names of one level; return whether cleansing changes any of them.

        Raises:
            SourceContractError: two names of the level become equal.
        """
        changes = False
        for name in names:
            clean = self.clean(name)
            changes = changes or clean != name
            source = self._sources.setdefault((path, clean), name)
            if source != name:
                raise SourceContractError(
                    f'the names "{source}" and "{name}" both become "{path}{clean}"',
                    "Set ms.schema.cleansing to another pattern or replacement, or to"
                    ' {"enabled": false}.',
                )
        return changes

    def register_levels(self, levels: Iterable[tuple[str, list[str]]]) -> bool:
        """Record the names of many levels by path; return whether cleansing changes any of them."""
        changes = [self.register(names, path) for path, names in levels]
        return any(changes)

    def renamed_rows(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return rows with all names cleansed, at all depths."""
        return [
            {self.clean(name): self.renamed(item) for name, item in row.items()} for row in rows
        ]

    def renamed(self, value: object) -> object:
        """Return a JSON value with all names cleansed, at all depths."""
        if isinstance(value, dict):
            return {self.clean(name): self.renamed(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.renamed(item) for item in value]
        return value

    def renaming(self, field: pa.Field) -> Callable[[Any], Any]:
        """Return the function that cleanses the names in values of a known column.

        Names that become no column are dropped. Names inside JSON columns stay as they are.
        """
        kind = field.type
        if pa.types.is_struct(kind):
            members = {member.name: self.renaming(member) for member in kind}
            return partial(self._renamed_members, members)
        if pa.types.is_map(kind):
            return partial(self._renamed_keys, self.renaming(kind.item_field))
        if pa.types.is_list(kind):
            return partial(_each, self.renaming(kind.value_field))
        return _unchanged if type_word(field) == JSON else self.renamed

    def _renamed_members(self, members: Mapping[str, Callable[[Any], Any]], value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        named = ((self.clean(name), item) for name, item in value.items())
        return {name: members[name](item) for name, item in named if name in members}

    def _renamed_keys(self, rename: Callable[[Any], Any], value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {self.clean(name): rename(item) for name, item in value.items()}

    def register_known(self, values: Iterable[Any], kind: pa.DataType, path: str = "") -> bool:
        """Record names that become columns of a known type; return whether any of them changes.

        Names that become no column are ignored: their values are dropped anyway.
        """
        if pa.types.is_struct(kind):
            objects = [value for value in values if isinstance(value, dict)]
            return self._register_members(objects, {f.name: f.type for f in kind}, path)
        if pa.types.is_map(kind):
            objects = [value for value in values if isinstance(value, dict)]
            names: set[str] = set().union(*objects)
            items = (item for value in objects for item in value.values())
            changes = self.register(names, path)
            # The names inside the values are on another level than the keys.
            return self.register_known(items, kind.item_type, f"{path}*.") or changes
        if pa.types.is_list(kind):
            elements = (item for value in values if isinstance(value, list) for item in value)
            return self.register_known(elements, kind.value_type, path)
        return False

    def _register_members(
        self, objects: list[dict[str, Any]], types: Mapping[str, pa.DataType], path: str
    ) -> bool:
        names: set[str] = set().union(*objects)
        wanted = [name for name in names if self.clean(name) in types]
        changes = self.register(wanted, path)
        for name in wanted:
            clean = self.clean(name)
            if pa.types.is_nested(types[clean]):
                inner = (value[name] for value in objects if name in value)
                changes |= self.register_known(inner, types[clean], below(path, clean))
        return changes


def _each(rename: Callable[[Any], Any], value: Any) -> Any:
    return [rename(item) for item in value] if isinstance(value, list) else value


def _unchanged(value: Any) -> Any:
    return value


def below(path: str, name: str) -> str:
    """Return the path of the level below a name, unique even if names have dots.

    >>> below("", "a") + "b", below(below("", "a"), "b"), below("", "a.b")
    ('a.b', 'a.b.', '[a.b].')
    """
    return f"{path}[{name}]." if "." in name else f"{path}{name}."


def suspicious_rows(batch: pa.RecordBatch, names: NameCleansing) -> list[int]:
    """Return the positions of rows that may have a value under an uncleansed name.

    Such a row has a null in a column whose name another name could become.
    """
    mask = _suspicious(batch.to_struct_array(), names)
    if mask is None:
        return []
    positions: list[int] = pc.indices_nonzero(mask).to_pylist()
    return positions


def _suspicious(array: pa.Array, names: NameCleansing) -> pa.Array | None:
    """Return a mask of the suspicious rows, None if there are none."""
    if pa.types.is_list(array.type):
        inside = _suspicious(array.values, names)
        return None if inside is None else array.is_valid()
    if not pa.types.is_struct(array.type):
        return None
    mask = None
    for field, child in zip(array.type, array.flatten(), strict=True):
        found = _suspicious(child, names)
        if names.could_come_from_another(field.name) and child.null_count > array.null_count:
            absent = pc.and_(child.is_null(), array.is_valid())
            found = absent if found is None else pc.or_(found, absent)
        if found is not None:
            mask = found if mask is None else pc.or_(mask, found)
    return mask
