"""Chooses the type of each column of a PostgreSQL result.

If Arrow has the type of a column, the column stays unchanged. The server casts all other columns to
text, so that DIL need not know the wire form of a range or a point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.jdbc.columns import DecimalColumn
from connectors.jdbc.failures import unfit
from connectors.jdbc.syntax import Kind, syntax_of
from dil.databases.postgresql import UNQUOTED

if TYPE_CHECKING:
    import pyarrow as pa

_SYNTAX = syntax_of(Kind.POSTGRESQL)
_NATIVE = frozenset(
    {"int2", "int4", "int8", "float4", "float8", "bool", "text", "varchar", "bpchar", "name",
     "char", "bytea", "date", "time", "timestamp", "timestamptz", "json", "jsonb"}
)  # fmt: skip
_UNKNOWN = ("the driver gives bytes in place of values", UNQUOTED)
_OTHER_CASTS = {"oid": "int8", "money": "numeric", "xid": "text", "cid": "text"}
_DIMENSIONS = "dil array dimensions"
# The values that ADBC returns for infinity and -infinity: impossible days and microseconds.
_LAST_BAD_DAY = -2147472691
_LAST_BAD_MICROSECOND = -9222425352054775808
_MODIFIER_OFFSET = 4

Read = Callable[["pa.Array"], "pa.Array"]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    cast: str = ""
    read: Read | None = None
    is_array: bool = False


class ResultPlan:
    """The casts and readers for the columns of one result."""

    def __init__(self, schema: pa.Schema, *, nulls_dates: bool) -> None:
        self._nulls_dates = nulls_dates
        self._columns = [self._column(field) for field in schema]

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self._columns]

    def rewritten(self, sql: str) -> str:
        """Return the query with the casts that its columns need; unchanged if they need none."""
        if not any(column.cast or column.is_array for column in self._columns):
            return sql
        wanted = [
            f"q.{_SYNTAX.quoted(column.name)}{column.cast and f'::{column.cast}'}"
            f" AS {_SYNTAX.quoted(column.name)}"
            for column in self._columns
        ]
        arrays = [_SYNTAX.quoted(column.name) for column in self._columns if column.is_array]
        if arrays:
            sizes = ", ".join(f"array_ndims(q.{name})" for name in arrays)
            wanted.append(f"greatest({sizes}) AS {_SYNTAX.quoted(_DIMENSIONS)}")
        return f"SELECT {', '.join(wanted)} FROM (\n{sql}\n) AS q\n"  # noqa: S608

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the result; the types of its columns keep the values exactly.

        Raises:
            SourceContractError: an array has several dimensions, a date is infinite, or the driver
                does not know the types of the casts.
        """
        import pyarrow as pa

        if len(batch.schema) > len(self._columns):
            import pyarrow.compute as pc

            if (pc.max(batch.column(_DIMENSIONS)).as_py() or 0) > 1:
                raise unfit(
                    ", ".join(column.name for column in self._columns if column.is_array),
                    "an array has several dimensions, for which Arrow has no column type",
                    "Write to_jsonb(column) AS column in ms.jdbc.statement.",
                )
        for column, array in zip(self._columns, batch.columns, strict=False):
            if column.cast and _is_unknown(array.type):
                raise unfit(column.name, *_UNKNOWN)
        columns = [
            column.read(array) if column.read else array
            for column, array in zip(self._columns, batch.columns, strict=False)
        ]
        return pa.RecordBatch.from_arrays(columns, names=self.names)

    def _column(self, field: pa.Field) -> _Column:
        import pyarrow as pa

        facts = field.metadata or {}
        word = facts.get(b"POSTGRESQL:type", b"").decode()
        is_array = word.startswith("_") and bool(pa.types.is_list(field.type))
        element = word[1:] if is_array else word
        if element in _NATIVE and _is_unknown(field.type):
            raise unfit(field.name, *_UNKNOWN)
        ending = "[]" if is_array else ""
        if element == "numeric":
            modifier = int(facts.get(b"POSTGRESQL:typmod", b"-1"))
            # The driver would turn such columns into texts too, but it takes longer than the
            # server.
            decimals = _nested(_decimals(modifier), is_array)
            return _Column(field.name, f"text{ending}", decimals, is_array)
        if element in _OTHER_CASTS:
            read = _nested(_decimals(-1), is_array) if element == "money" else None
            return _Column(field.name, f"{_OTHER_CASTS[element]}{ending}", read, is_array)
        if element not in _NATIVE:
            return _Column(field.name, f"text{ending}", None, is_array)
        if element == "date" or element.startswith("timestamp"):
            return _Column(field.name, "", _nested(self._dates(field.name), is_array), is_array)
        if element in {"json", "jsonb"}:
            return _Column(field.name, "", _nested(_storage, is_array), is_array)
        return _Column(field.name, is_array=is_array)

    def _dates(self, name: str) -> Read:
        def read(array: pa.Array) -> pa.Array:
            import pyarrow as pa
            import pyarrow.compute as pc

            is_date = pa.types.is_date(array.type)
            numbers = array.cast(pa.int32() if is_date else pa.int64())
            last = _LAST_BAD_DAY if is_date else _LAST_BAD_MICROSECOND
            least = pc.min(numbers).as_py()
            if least is None or least > last:
                return array
            if not self._nulls_dates:
                raise unfit(
                    name,
                    "a date is infinity, which is no date of a calendar",
                    f"Write nullif({name}, 'infinity') in ms.jdbc.statement, or set"
                    " ms.jdbc.invalid.dates=null.",
                )
            return pc.if_else(pc.less_equal(numbers, last), pa.scalar(None, array.type), array)

        return read


def _is_unknown(data_type: pa.DataType) -> bool:
    """Return whether the driver gives the bytes of a type's wire form, or an array of them."""
    import pyarrow as pa

    item = data_type.value_type if pa.types.is_list(data_type) else data_type
    return isinstance(item, pa.OpaqueType) and bool(pa.types.is_binary(item.storage_type))


def _decimals(modifier: int) -> Read:
    """Return the reader of a numeric column with a type modifier, -1 for none."""
    if modifier < _MODIFIER_OFFSET:
        column = DecimalColumn()
    else:
        packed = modifier - _MODIFIER_OFFSET
        # Since PostgreSQL 15 the scale has 11 bits and a sign.
        column = DecimalColumn((packed >> 16) & 0xFFFF, ((packed & 0x7FF) ^ 0x400) - 0x400)
    return lambda array: column.read(_storage(array))


def _nested(read: Read, is_array: bool) -> Read:  # noqa: FBT001 - one of two forms
    """Return the reader of a column, or of the items of its arrays."""
    if not is_array:
        return read

    def items(array: pa.Array) -> pa.Array:
        import pyarrow as pa

        inner = read(array.values)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, inner, mask=mask)

    return items


def _storage(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    return array.storage if isinstance(array, pa.ExtensionArray) else array
