"""Reads rows of Avro container files.

Source: Apache Avro 1.11 specification, "Object Container Files".
"""

from __future__ import annotations

from typing import Any

from dil.extraction.avro.blocks import CheckedBlocks
from dil.extraction.secondary.columns import Open, Rows, UnfitError, check_columns, json_row
from dil.extraction.secondary.limits import Allowance
from dil.extraction.sizes import AVRO_BLOCK_BYTES


def read_avro(opened: Open, columns: tuple[str, ...], allowed: Allowance) -> Rows:
    """Yield the rows; memory holds one block at a time."""
    with opened() as stream:
        blocks = CheckedBlocks(stream, allowed.longest(AVRO_BLOCK_BYTES))
        schema: Any = blocks.schema
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UnfitError("does not hold records")
        types = {field["name"]: field["type"] for field in schema["fields"]}
        check_columns(columns, types)
        maps = {name for name in columns if _is_map(types[name])}
        for block in blocks:
            allowed.take(block.num_records, block.bytes_.getbuffer().nbytes)
            for row in block:
                yield json_row(row, columns, maps)


def _is_map(avro_type: object) -> bool:
    if isinstance(avro_type, list):
        return any(_is_map(branch) for branch in avro_type)
    return isinstance(avro_type, dict) and avro_type.get("type") == "map"
