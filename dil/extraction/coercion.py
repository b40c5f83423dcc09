"""Converts JSON values one by one into declared column types, if Arrow's reader refused them.

See docs/rows.md. Fractions arrive as their text (NumberText), so that nothing is rounded on the
way.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from dil.errors import ConversionError
from dil.extraction.excerpt import bracketed_form, kind_of
from dil.extraction.numbers import FLOAT32_MAX, NumberText, number_of
from dil.extraction.shapes import member_values
from dil.model.arrow import type_word
from dil.model.json import compact
from dil.model.schema import JSON
from dil.types.number_texts import plain

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BITS = {pa.int32(): 31, pa.int64(): 63}
_NATIVE: dict[pa.DataType, set[type]] = {
    pa.string(): {str, NumberText},
    pa.bool_(): {bool},
    pa.int32(): {int},
    pa.int64(): {int},
}

_CONTAINERS = {"record", "array", "map"}

Coerce: TypeAlias = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class RowPosition:
    """The position of consecutive values: their page and first row, both counted from 1.

    ``path`` is empty, or it is the path of the record that holds the values, plus a point.
    """

    page: int
    first_row: int
    path: str = ""

    def later(self, rows: int) -> RowPosition:
        """Return the position ``rows`` rows later."""
        return replace(self, first_row=self.first_row + rows)

    def below(self, name: str) -> RowPosition:
        """Return the position of the values of member ``name``."""
        return replace(self, path=f"{self.path}{name}.")


class _UnfitError(ValueError):
    """A value does not fit its type; each level adds its segment in front of ``path``."""

    def __init__(self, wanted: str, value: object) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.kind = kind_of(value)
        self.is_nested = isinstance(value, dict | list)
        self.sample = bracketed_form(value)
        self.path = ""

    def fix(self) -> str:
        """Return the advice for the error's message."""
        is_mixed = self.is_nested or self.wanted in _CONTAINERS
        other = f", declare the column as {JSON} if the source is JSON" if is_mixed else ""
        return f"Correct the column's type in ms.output.schema{other}, or the data at the source."

    def below(self, segment: str) -> _UnfitError:
        """Return this error with a segment added at the front of its path."""
        self.path = f"{segment}.{self.path}" if self.path else segment
        return self


def coerced_batch(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, position: RowPosition
) -> pa.RecordBatch:
    """Return rows as a batch of exactly this schema; missing members are null.

    Text becomes numbers and booleans, numbers and booleans become text, ``1.0`` becomes an
    integer; nothing is rounded except into float and double columns.

    Raises:
        ConversionError: a value has no form in its column's type. The message names the column,
            the row and the page, the value's kind, and a sample of it that shows only its form.
    """
    arrays = [_column(member_values(rows, field.name), field, position) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(values: Sequence[Any], field: pa.Field, position: RowPosition) -> pa.Array:
    """Return a column with one value for each row; nested columns are made member by member."""
    kinds = set(map(type, values)) - {type(None)}
    kind = field.type
    if _is_native(kinds, field, values):
        try:
            return pa.array(values, type=kind)
        except (pa.ArrowInvalid, OverflowError):
            pass  # A value is out of range: the loop below finds its row.
    if pa.types.is_struct(kind) and kinds <= {dict}:
        members = [
            _column(
                [None if v is None else v.get(f.name) for v in values],
                f,
                position.below(field.name),
            )
            for f in kind
        ]
        is_null = pa.array([value is None for value in values], type=pa.bool_())
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=is_null)
    return pa.array(_coerced(values, field, position), type=kind)


def _is_native(kinds: set[type], field: pa.Field, values: Sequence[Any]) -> bool:
    """Return whether Arrow would accept all values, and the column holds them unchanged."""
    if pa.types.is_list(field.type) and kinds <= {list}:
        elements = set(map(type, chain.from_iterable(value for value in values if value)))
        return elements - {type(None)} <= _native(field.type.value_field)
    return kinds <= _native(field)


def _native(field: pa.Field) -> set[type]:
    return set() if type_word(field) == JSON else _NATIVE.get(field.type, set())


def _coerced(values: Sequence[Any], field: pa.Field, position: RowPosition) -> list[object]:
    coerce = _coercion(field)
    fitting: list[object] = []
    for number, value in enumerate(values, position.first_row):
        try:
            fitting.append(coerce(value))
        except _UnfitError as unfit:
            path = f"{position.path}{unfit.below(field.name).path}"
            raise ConversionError(
                f'column "{path}", row {number} of page {position.page}:'
                f" {unfit.kind}{unfit.sample} is no {unfit.wanted}",
                unfit.fix(),
            ) from None
    return fitting


def _coercion(field: pa.Field) -> Coerce:
    """Return the function that converts values to a field's type; null stays null."""
    inner = _coercion_of_type(field.type, type_word(field))
    return lambda value: None if value is None else inner(value)


def _coercion_of_type(kind: pa.DataType, word: str) -> Coerce:
    if kind in _BITS:
        return _integer(_BITS[kind], word or str(kind))
    if pa.types.is_floating(kind):
        limit = FLOAT32_MAX if kind == pa.float32() else sys.float_info.max
        return _floating(limit, word or str(kind))
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if pa.types.is_nested(kind):
        return _nested(kind)
    if word == JSON:
        return _json
    return _boolean if kind == pa.bool_() else _text


def _nested(kind: pa.DataType) -> Coerce:
    if pa.types.is_struct(kind):
        return _record(kind)
    return _map(kind) if pa.types.is_map(kind) else _array(kind)


def _text(value: object) -> object:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise _UnfitError("text", value)


def _json(value: Any) -> str:
    """Return a value as compact JSON text; numbers keep their own text."""
    if isinstance(value, dict):
        members = (f"{compact(name)}:{_json(item)}" for name, item in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    return str(value) if isinstance(value, NumberText) else compact(value)


def _boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise _UnfitError("boolean", value)


def _number(value: object, wanted: str) -> Decimal:
    """Return a number, or the number that a text spells, with all its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = number_of(str(value))
        if number is not None:
            return number
    raise _UnfitError(wanted, value)


def _integer(bits: int, wanted: str) -> Coerce:
    def coerce(value: object) -> object:
        number = _number(value, wanted)
        whole = int(number)
        if whole != number or not -(2**bits) <= whole < 2**bits:
            raise _UnfitError(f"{wanted} (out of range, or with a fraction)", value)
        return whole

    return coerce


def _floating(limit: float, wanted: str) -> Coerce:
    def coerce(value: object) -> object:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer and not (isinstance(value, str) and _NUMBER.fullmatch(value)):
            raise _UnfitError(wanted, value)
        number = float(str(value))
        if abs(number) > limit:
            raise _UnfitError(f"{wanted} (out of range)", value)
        return number

    return coerce


def _decimal(precision: int, scale: int) -> Coerce:
    wanted = f"decimal({precision}, {scale})"

    def coerce(value: object) -> object:
        number = _number(value, wanted)
        places = plain(number).as_tuple().exponent
        if not isinstance(places, int) or -places > scale:
            raise _UnfitError(f"{wanted} (too many decimal places)", value)
        if number and number.adjusted() + 1 > precision - scale:
            raise _UnfitError(f"{wanted} (too many digits)", value)
        return number

    return coerce


def _record(kind: pa.DataType) -> Coerce:
    members = {field.name: _coercion(field) for field in kind}

    def coerce(value: object) -> object:
        if not isinstance(value, dict):
            raise _UnfitError("record", value)
        fitting: dict[str, object] = {}
        for name, member in members.items():
            try:
                fitting[name] = member(value.get(name))
            except _UnfitError as unfit:
                raise unfit.below(name) from None
        return fitting

    return coerce


def _array(kind: pa.DataType) -> Coerce:
    items = _coercion(kind.value_field)

    def coerce(value: object) -> object:
        if not isinstance(value, list):
            raise _UnfitError("array", value)
        try:
            return [items(item) for item in value]
        except _UnfitError as unfit:
            raise unfit.below("[]") from None

    return coerce


def _map(kind: pa.DataType) -> Coerce:
    items = _coercion(kind.item_field)

    def coerce(value: object) -> object:
        if not isinstance(value, dict):
            raise _UnfitError("map", value)
        try:
            return [(name, items(item)) for name, item in value.items()]
        except _UnfitError as unfit:
            raise unfit.below("{}") from None

    return coerce
