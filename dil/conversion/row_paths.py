"""Finds values inside rows by their paths (rule F12)."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.texts import text_of
from dil.errors import SourceContractError
from dil.model.json import JsonValue, as_text, read_number
from dil.model.path import Missing, Path, Step, is_jsonpath
from dil.text.paths import compile_path, find


class SearchError(ValueError):
    """JSONPath finds several unequal values in a row; ``row`` counts from 0 in the batch."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def find_column(batch: pa.RecordBatch, text: str) -> pa.Array | None:
    """Return the column at a path inside rows, list items by index; None if there is no column.

    A JSONPath that searches is applied row by row, and the results are text.

    Raises:
        SearchError: JSONPath finds several unequal values in a row.
    """
    if not is_jsonpath(text) and text in batch.schema.names:
        return batch.column(text)
    path = compile_path(text)
    if path.steps and path.steps[0] not in batch.schema.names:
        return None
    if not path.is_place or not path.steps or any(map(_is_from_end, path.steps)):
        return _searched(batch, path)
    array = batch.column(path.steps[0])
    for step in path.steps[1:]:
        inner = _member(array, step)
        if inner is None:
            return None
        array = inner
    return array


def _is_from_end(step: Step) -> bool:
    """Return whether a step counts from the end; a step of a dot path never does in rows."""
    return isinstance(step, int) and step < 0


def _member(array: pa.Array, step: Step) -> pa.Array | None:
    kind = array.type
    if pa.types.is_list(kind) and (isinstance(step, int) or (step.isascii() and step.isdigit())):
        index = int(step)
        # With a fixed size, Arrow would fill a list that is too short with null instead of refusing
        # it.
        one = pc.list_slice(array, index, index + 1, return_fixed_size_list=True)
        return pc.list_element(one, 0)
    if isinstance(step, int):
        return None
    if pa.types.is_struct(kind):
        return pc.struct_field(array, step) if kind.get_field_index(step) >= 0 else None
    if pa.types.is_map(kind):
        return pc.map_lookup(array, pa.scalar(step), "first")
    return None


def _searched(batch: pa.RecordBatch, path: Path) -> pa.Array:
    """Return the value at a path in each row as text, null if there is none."""
    part = batch.select([path.steps[0]]) if path.steps else batch
    rows = text_of(pa.StructArray.from_arrays(part.columns, fields=list(part.schema)))
    found: list[str | None] = []
    for row, text in enumerate(rows.to_pylist()):
        try:
            exact: JsonValue = json.loads(text, parse_int=read_number, parse_float=read_number)
            value = find(exact, path.text)
            found.append(None if isinstance(value, Missing) or value is None else as_text(value))
        except SourceContractError as error:
            raise SearchError(row, error.message) from None
    return pa.array(found, pa.string())
