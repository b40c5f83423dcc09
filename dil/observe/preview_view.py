"""The first rows of a source: JSON for machines, a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from dil.model.arrow import type_word, word_of
from dil.model.json import JsonObject, JsonValue
from dil.observe.logs import one_line
from dil.spi.messages import shortened

if TYPE_CHECKING:
    from rich.table import Table

_CELL = 32
_WIDTH = 10_000


def columns_json(schema: pa.Schema) -> list[JsonObject]:
    """Return columns in the form of ``ms.output.schema`` (behaviour.md B9.2)."""
    return [_column(field) for field in schema]


def rows_json(rows: pa.Table) -> list[JsonObject]:
    """Return rows with exact numbers; times and bytes as text."""
    found: list[JsonObject] = msgspec.json.decode(
        msgspec.json.Encoder(decimal_format="number").encode(rows.to_pylist())
    )
    return found


def rows_text(rows: pa.Table) -> str:
    """Return one line a column: name, type, and its value in each row."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    heads = [f"row {number + 1}" for number in range(rows.num_rows)]
    for head in ("column", "type", *heads):
        table.add_column(head, no_wrap=True)
    _add_lines(table, rows)
    console = Console(width=_WIDTH, no_color=True, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def schema_text(schema: pa.Schema) -> str:
    """Return ``ms.output.schema`` as it can be pasted into a job file."""
    columns = (msgspec.json.encode(column).decode() for column in columns_json(schema))
    lines = ",\n".join(f"  {column}" for column in columns)
    return f"ms.output.schema=[\n{lines}]\n"


def _add_lines(table: Table, rows: pa.Table) -> None:
    for field, column in zip(rows.schema, rows.columns, strict=True):
        cells = [_cell(value) for value in rows_json(pa.table({"": column}))]
        table.add_row(one_line(field.name), _type_text(field), *cells)


def _cell(row: JsonObject) -> str:
    value = row[""]
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shortened(one_line(text), _CELL)


def _type_text(field: pa.Field) -> str:
    word = type_word(field) or word_of(field.type)
    return word if field.nullable else f"{word} not null"


def _column(field: pa.Field) -> JsonObject:
    return {
        "columnName": field.name,
        "isNullable": field.nullable,
        "dataType": _data_type(field),
    }


def _data_type(field: pa.Field) -> JsonObject:
    kind = field.type
    if pa.types.is_struct(kind):
        return {"type": "record", "name": field.name, "values": [_column(each) for each in kind]}
    if pa.types.is_map(kind):
        return {"type": "map", "name": field.name, "values": _inner(kind.item_field)}
    if pa.types.is_list(kind):
        return {"type": "array", "name": field.name, "items": _inner(kind.value_field)}
    if pa.types.is_decimal(kind):
        return {"type": "decimal", "precision": kind.precision, "scale": kind.scale}
    word = type_word(field) or word_of(kind)
    return {"type": "string" if word == "enum" else word}


def _inner(field: pa.Field) -> JsonValue:
    """Return the type of an array's items or a map's values: a word, or an object."""
    found = _data_type(field)
    return found if len(found) > 1 else found["type"]
