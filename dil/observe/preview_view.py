"""Shows the first rows of a source: as JSON for machines, as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa

from dil.model.arrow import type_word, word_of
from dil.model.json import JsonObject, JsonValue
from dil.model.messages import shortened
from dil.model.schema import COLUMN_NAME
from dil.observe.logs import one_line

_CELL = 32
_WIDTH = 10_000
_CLEANSING = 'ms.schema.cleansing={"pattern": "[^A-Za-z0-9_]|^(?=[0-9])"}'


def columns_json(schema: pa.Schema) -> list[JsonObject]:
    """Return columns in the form of ``ms.output.schema`` (docs/formats.md)."""
    return [_column(field) for field in schema]


def rows_json(rows: pa.Table) -> list[JsonObject]:
    """Return rows as JSON: numbers are exact, maps are objects, times and bytes are text."""
    values = rows.to_pylist(maps_as_pydicts="lossy")
    found: list[JsonObject] = msgspec.json.decode(
        msgspec.json.Encoder(decimal_format="number").encode(values)
    )
    return found


def rows_text(rows: pa.Table) -> str:
    """Return one line for each column: its name, its type, and its value in each row."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    heads = [f"row {number + 1}" for number in range(rows.num_rows)]
    for head in ("column", "type", *heads):
        table.add_column(head, no_wrap=True)
    for field, column in zip(rows.schema, rows.columns, strict=True):
        word = type_word(field) or word_of(field.type)
        cells = []
        for row in rows_json(pa.table({"": column})):
            value = row[""]
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            cells.append(shortened(one_line(text), _CELL))
        kind = word if field.nullable else f"{word} not null"
        table.add_row(one_line(field.name), kind, *cells)
    console = Console(width=_WIDTH, no_color=True, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def schema_text(rows: pa.Table, words: Mapping[str, str]) -> str:
    """Return ``ms.output.schema`` as it can be pasted into a job file.

    If the rows have no value in a column or member, its type is only a guess: it is left out, and
    a comment names it. ``words`` are better types, such as timestamp, for columns of texts; another
    comment names these columns. A third comment names the columns whose names a schema cannot hold.
    """
    left_out: list[str] = []
    seen = []
    for each, column in zip(rows.schema, rows.columns, strict=True):
        chunks = column.chunks or [pa.array([], column.type)]
        field = _seen(each, pa.concat_arrays(chunks), "", left_out)
        if field is not None:
            seen.append(field)
    read = [each.name for each in seen if each.name in words]
    better = {name: {"dataType": {"type": word}} for name, word in words.items()}
    columns = ({**_column(each), **better.get(each.name, {})} for each in seen)
    lines = ",\n".join(f"  {msgspec.json.encode(column).decode()}" for column in columns)
    text = f"ms.output.schema=[\n{lines}]\n"
    if read:
        text += f"# their texts are ISO 8601; string keeps them as they are: {', '.join(read)}\n"
    if left_out:
        text += f"# left out, because no row shown had a value: {', '.join(left_out)}\n"
    if unfit := [path for field in seen for path in _unfit(field, "")]:
        text += f"# names that no ms.output.schema can hold: {', '.join(unfit)}\n"
        text += f"# first rename them, and preview again: {_CLEANSING}\n"
    return text


def _unfit(field: pa.Field, path: str) -> Iterator[str]:
    """Yield the columns and members whose names ``ms.output.schema`` refuses."""
    here = f"{path}{one_line(field.name)}"
    if not COLUMN_NAME.fullmatch(field.name):
        yield here
    kind = field.type
    while pa.types.is_list(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        for each in kind:
            yield from _unfit(each, f"{here}.")


def _seen(field: pa.Field, values: pa.Array, path: str, left_out: list[str]) -> pa.Field | None:
    """Return the field without members that have no value; None if the field itself has none."""
    kind, here = field.type, f"{path}{one_line(field.name)}"
    if pa.types.is_struct(kind):
        members = [
            found
            for each, inner in zip(kind, values.flatten(), strict=True)
            if (found := _seen(each, inner, f"{here}.", left_out)) is not None
        ]
        return field.with_type(pa.struct(members)) if members else None
    if _is_guess(kind) and not any(map(_has_value, values.to_pylist())):
        left_out.append(here)
        return None
    return field


def _is_guess(kind: pa.DataType) -> bool:
    """Return whether a type is a type for columns without values."""
    if pa.types.is_list(kind):
        return _is_guess(kind.value_type)
    if pa.types.is_map(kind):
        return _is_guess(kind.item_type)
    return bool(pa.types.is_string(kind))


def _has_value(value: object) -> bool:
    """Return whether there is a value at any depth; an empty text is a value."""
    if isinstance(value, list | tuple):
        return any(map(_has_value, value))
    return value is not None


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
