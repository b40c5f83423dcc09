"""Counts array items that take no byte: a few bytes can declare any number of such items.

Such items are nulls, records without fields or with nulls only, and fixed values of length 0. A
library would make an object for each of them, which takes minutes. Source: Apache Avro 1.12
specification, "Binary encoding".
"""

from __future__ import annotations

from typing import Any

from dil.errors import SourceContractError
from dil.extraction.avro.types import AvroType

MOST_EMPTY = 1_000_000
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = frozenset({"int", "long", "enum"})
_TEXTS = frozenset({"bytes", "string"})
_MORE = 0x80
_MOST_BITS = 70


class EmptyItems:
    """Counts array items that take no byte; ``schema`` has fastavro's parsed form."""

    def __init__(self, schema: AvroType) -> None:
        self._schema = schema
        self._named: dict[str, AvroType] = {}
        self._arrays = [each for each in self._types(schema) if _word(each) == "array"]
        self._data = memoryview(b"")
        self._at = 0
        self._found = 0

    @property
    def may_be(self) -> bool:
        """Return whether array items may take no byte; if not, ``check`` is not needed."""
        return any(self._is_empty(each["items"]) for each in self._arrays)

    def check(self, data: memoryview, rows: int) -> None:
        """Count the array items that take no byte in a block of ``rows`` rows.

        Raises:
            SourceContractError: the block has more than a million such items, and more such items
                than bytes.
            IndexError, ValueError: the block is cut off or damaged.
        """
        self._data, self._at, self._found = data, 0, 0
        for _ in range(rows):
            self._skip(self._schema)

    def _types(self, avro: AvroType) -> list[AvroType]:
        """Return a type and all types inside it; keep the named types under their names."""
        if isinstance(avro, list):
            return [found for branch in avro for found in self._types(branch)]
        if not isinstance(avro, dict):
            return [avro]
        if "name" in avro:
            self._named[avro["name"]] = avro
        inner = [field["type"] for field in avro.get("fields", ())]
        inner += [avro[name] for name in ("items", "values") if name in avro]
        if isinstance(avro["type"], dict | list):
            inner.append(avro["type"])
        return [avro, *(found for each in inner for found in self._types(each))]

    def _is_empty(self, avro: AvroType, above: frozenset[str] = frozenset()) -> bool:
        """Return whether values of a type take no byte; a union takes a byte to name its branch."""
        found = self._resolved(avro)
        word = _word(found)
        if word == "fixed":
            return int(found["size"]) == 0
        if word not in {"record", "error"}:
            return word == "null"
        name = found["name"]
        inside = (field["type"] for field in found["fields"])
        return name not in above and all(self._is_empty(each, above | {name}) for each in inside)

    def _resolved(self, avro: AvroType) -> Any:  # the JSON of a schema
        found = self._named.get(avro, avro) if isinstance(avro, str) else avro
        is_wrapped = isinstance(found, dict) and isinstance(found["type"], dict | list)
        return self._resolved(found["type"]) if is_wrapped else found

    def _skip(self, avro: AvroType) -> None:
        found = self._resolved(avro)
        word = _word(found)
        if word == "union":
            self._skip(found[self._number()])
        elif word in {"record", "error"}:
            for field in found["fields"]:
                self._skip(field["type"])
        elif word in {"array", "map"}:
            self._skip_items(found)
        elif word in _TEXTS:
            self._pass_text()
        elif word in _NUMBERS:
            self._number()
        else:
            self._at += int(found["size"]) if word == "fixed" else _FIXED_SIZES[word]

    def _skip_items(self, avro: dict[str, Any]) -> None:
        items = avro.get("items", avro.get("values"))
        is_array = "items" in avro
        is_empty = is_array and self._is_empty(items)
        while count := self._number():
            if count < 0:
                count = -count
                self._number()  # the bytes of this part
            if is_empty:
                self._add(count)
                continue
            if count > len(self._data) - self._at:  # these items take at least a byte each
                raise ValueError("more items than bytes")
            for _ in range(count):
                if not is_array:
                    self._pass_text()  # the key
                self._skip(items)

    def _add(self, count: int) -> None:
        self._found += count
        if self._found > max(len(self._data), MOST_EMPTY):
            raise SourceContractError(
                f"a block of {len(self._data):,} bytes declares {self._found:,} items of arrays",
                "Write the file again at the source: it is damaged, or was made to exhaust memory.",
            )

    def _pass_text(self) -> None:
        length = self._number()
        if length < 0:
            raise ValueError("a length below 0")
        self._at += length

    def _number(self) -> int:
        value = shift = 0
        while shift < _MOST_BITS:
            part = self._data[self._at]
            self._at += 1
            value |= (part & ~_MORE) << shift
            if not part & _MORE:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise ValueError("a number of more than ten bytes")


def _word(avro: AvroType) -> str:
    """Return the kind of a type, or its name for a named type."""
    if isinstance(avro, list):
        return "union"
    found = avro["type"] if isinstance(avro, dict) else avro
    return found if isinstance(found, str) else ""
