"""Converts Arrow columns to the names and types that Hive and Glue use.

Source: Apache Hive language manual, "Hive Data Types"; AWS Glue developer guide, "Data types".
"""

from __future__ import annotations

import re

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.job import OutputFormat
from dil.types.lattice import MOST_DIGITS

_LONGEST_NAME = 128
# Characters that could end a name inside the text of a type.
_UNSAFE_MEMBER = re.compile(r"[^A-Za-z0-9_]")
_UNSAFE_COLUMN = re.compile(r"[,:;`\x00-\x1f]")
_FLAT: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}


def hive_columns(
    schema: pa.Schema, apart: tuple[str, ...], form: OutputFormat
) -> tuple[tuple[str, str], ...]:
    """Return names and types of the columns in files, without columns in folder names.

    Raises:
        ConversionError: Hive has no type for a column, refuses its name, or takes two columns for
            the same one.
    """
    lowered = {name.lower() for name in apart}
    columns = []
    for field in schema:
        if field.name in apart:
            continue
        name = field.name.lower()
        if name in lowered:
            raise _unfit(
                field.name, "is the name of two columns if letter case is not distinguished"
            )
        if not name or len(name) > _LONGEST_NAME or _UNSAFE_COLUMN.search(name):
            raise _unfit(field.name, "is no name of a column in Hive or Glue")
        lowered.add(name)
        columns.append((field.name, _type(field.type, field.name, form)))
    return tuple(columns)


def _type(kind: pa.DataType, path: str, form: OutputFormat) -> str:
    if pa.types.is_struct(kind):
        members = []
        for field in kind:
            place = f"{path}.{field.name}"
            if not field.name or _UNSAFE_MEMBER.search(field.name):
                raise _unfit(place, "is no name of a member in Hive or Glue")
            members.append(f"{field.name}:{_type(field.type, place, form)}")
        return f"struct<{','.join(members)}>"
    if pa.types.is_map(kind):
        key = _type(kind.key_type, f"{path}.key", form)
        return f"map<{key},{_type(kind.item_type, f'{path}.value', form)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_type(kind.value_type, f'{path}.element', form)}>"
    if pa.types.is_time(kind) and form is OutputFormat.ORC:
        return "bigint"  # This is its type in the files.
    word = flat_word(kind)
    if not word:
        raise _unfit(path, f"is {kind}, for which Hive and Glue have no type")
    return word


def flat_word(kind: pa.DataType) -> str:
    """Return Hive's word for a flat type, which is Spark's word too; empty if there is none."""
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision <= MOST_DIGITS:
        return f"decimal({kind.precision},{kind.scale})"
    # Hive has no zones: readers show instants in their own zone.
    if pa.types.is_timestamp(kind) and kind.unit in {"s", "ms", "us"}:
        return "timestamp"
    return _FLAT.get(kind, "")


def _unfit(column: str, what: str) -> ConversionError:
    return ConversionError(
        f'column "{column}" {what}, so that the table cannot be registered',
        "The rows are published. Rename the column or give it another type with ms.output.schema"
        " or at the source, or set ms.catalog.type=none.",
    )
