"""Rows of Avro container files.

Source: Apache Avro 1.11 specification, "Object Container Files".
"""

from __future__ import annotations

from typing import Any, cast

from fastavro import block_reader

from dil.extraction.avro.container import PlainBlocks
from dil.extraction.secondary.columns import Open, Rows, UnfitError, check_columns, json_row


def read_avro(opened: Open, columns: tuple[str, ...]) -> Rows:
    """Yield the rows, one block in memory at a time."""
    with opened() as stream:
        reader = block_reader(cast("Any", PlainBlocks(stream)))
        schema: Any = reader.writer_schema
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UnfitError("does not hold records")
        types = {field["name"]: field["type"] for field in schema["fields"]}
        check_columns(columns, types)
        maps = {name for name in columns if _is_map(types[name])}
        for block in reader:
            rows: Any = block
            for row in rows:
                yield json_row(row, columns, maps)


def _is_map(avro_type: object) -> bool:
    if isinstance(avro_type, list):
        return any(_is_map(branch) for branch in avro_type)
    return isinstance(avro_type, dict) and avro_type.get("type") == "map"
