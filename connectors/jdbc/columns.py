"""Makes columns from the values that drivers give: Python values, or the texts of decimals.

The values of a batch decide the type of a column. Batches may differ: writers widen the type.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from connectors.jdbc.failures import unfit
from dil.errors import SourceContractError
from dil.types.fitting import cast_texts
from dil.types.lattice import MOST_DIGITS

if TYPE_CHECKING:
    import pyarrow as pa

_EXACT_FLOAT = 2**53
_LONG = 2**63
_USUAL_SCALE = 18


def distinct(names: list[str]) -> list[str]:
    """Return the names of a result's columns, after checking that they differ.

    Raises:
        SourceContractError: two columns have the same name.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SourceContractError(
                f'the result has two columns "{name}"',
                "Give each a name of its own with AS in ms.jdbc.statement.",
            )
        seen.add(name)
    return names


def batches_of(
    names: list[str], parts: Iterable[Sequence[Sequence[Any]]]
) -> Iterator[pa.RecordBatch]:
    """Yield a batch for each part of the rows of a result.

    Args:
        names: The names of the columns.
        parts: Rows as tuples, at least one in each part.

    Raises:
        SourceContractError: two columns have the same name, or the values of a column have no
            common type.
    """
    import pyarrow as pa

    distinct(names)
    for rows in parts:
        columns = [
            column_of(name, values)
            for name, values in zip(names, zip(*rows, strict=True), strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def column_of(name: str, values: Sequence[Any]) -> pa.Array:
    """Return the values of one column as an Arrow array that keeps each of them.

    Ints become long, or decimal if one needs more than 64 bits. Ints among floats become double if
    double holds all of them exactly. Other mixed kinds become text, and so do values for which
    Arrow has no type.

    Raises:
        SourceContractError: the column holds bytes and other values.
    """
    import pyarrow as pa

    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if kinds <= {int, bool} and kinds != {bool}:
        return _integers(values)
    if kinds == {int, float} and all(
        abs(value) <= _EXACT_FLOAT for value in values if isinstance(value, int)
    ):
        return pa.array([None if value is None else float(value) for value in values])
    if len(kinds) == 1:
        make = next((make for kind, make in _MAKERS if issubclass(next(iter(kinds)), kind)), None)
        if make is not None:
            return make(values)
    if any(issubclass(kind, bytes | bytearray | memoryview) for kind in kinds):
        raise unfit(
            name,
            "holds bytes in some rows and other values in others",
            f"Write hex({name}) or cast({name} as text) in ms.jdbc.statement.",
        )
    if kinds <= {int, Decimal}:
        return _decimals(values)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _integers(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    if all(value is None or -_LONG <= value < _LONG for value in values):
        return pa.array([None if value is None else int(value) for value in values], pa.int64())
    return DecimalColumn(None, 0).read(_texts(values))


def _decimals(values: Sequence[Any]) -> pa.Array:
    return DecimalColumn().read(_texts(values))


def _texts(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _binary(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else bytes(value) for value in values], pa.binary())


def _moments(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    zoned = {value.tzinfo is not None for value in values if value is not None}
    if len(zoned) > 1:
        return _texts(values)
    return pa.array(values, pa.timestamp("us", tz="UTC" if zoned == {True} else None))


def typed(word: str) -> Callable[[Sequence[Any]], pa.Array]:
    """Return a function that makes a column of the type with a name such as ``int64``."""

    def make(values: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        return pa.array(values, pa.type_for_alias(word))

    return make


def _text(value: object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


# A class comes before its base classes: a datetime is a date, a bool is an int.
_MAKERS: tuple[tuple[type, Callable[[Sequence[Any]], pa.Array]], ...] = (
    (str, typed("string")),
    (float, typed("double")),
    (bool, typed("bool")),
    (dt.datetime, _moments),
    (dt.date, typed("date32")),
    (dt.time, typed("time64[us]")),
    (Decimal, _decimals),
    (bytes, _binary),
    (bytearray, _binary),
    (memoryview, _binary),
    (uuid.UUID, _texts),
)


class DecimalColumn:
    """Turns the texts of one column into decimals, batch after batch.

    If the declared precision is at most 38 digits, the column has the declared type. Otherwise it
    is decimal(38, ``scale``); ``scale`` is 18 if it is not known. If the values of a batch do not
    fit this type, the batch gets decimal(38, s) with the scale s that they need. If they do not fit
    this either (more digits, ``NaN``, ``Infinity``), the batch and all later batches become text.
    Writers then widen the column, so nothing is lost.
    """

    def __init__(self, precision: int | None = None, scale: int | None = None) -> None:
        import pyarrow as pa

        usual = _USUAL_SCALE if scale is None else min(max(scale, 0), MOST_DIGITS)
        self._types: list[pa.DataType] = [pa.decimal128(MOST_DIGITS, usual)]
        if precision is None or scale is None or precision > MOST_DIGITS:
            return
        if 0 <= scale <= precision:
            self._types = [pa.decimal128(max(precision, 1), scale)]
        elif scale < 0:
            digits = precision - scale
            self._types = [pa.decimal128(digits, 0)] if digits <= MOST_DIGITS else []

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the values of a batch in the first type that holds them exactly."""
        import pyarrow as pa

        for data_type in (*self._types, None):
            target = data_type or _needed(texts)
            if pa.types.is_string(target):
                break
            try:
                return cast_texts(texts, target)
            except pa.ArrowInvalid:
                continue
        self._types = [pa.string()]  # A column that was text once stays text.
        return texts


def _needed(texts: pa.Array) -> pa.DataType:
    """Return decimal(38, s) with the scale that these texts need; text if that is too much."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fractions = pc.extract_regex(texts, r"\.(?P<digits>[0-9]+)$").field("digits")
    scale = pc.max(pc.utf8_length(fractions)).as_py() or 0
    return pa.decimal128(MOST_DIGITS, scale) if scale <= MOST_DIGITS else pa.string()
