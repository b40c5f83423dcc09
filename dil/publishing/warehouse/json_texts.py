"""Lists, maps and records as JSON text, a column at a time: no value becomes a Python object.

Value by value is made only what JSON writes in a form of its own: fractions, decimals, times,
bytes, texts with characters that JSON escapes, and maps, in which a key might be there twice.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_ESCAPED = r'[\x00-\x1f\x7f"\\]'
_NULL = "null"


def json_texts(values: pa.Array) -> pa.Array:
    """Return the JSON of each value, null where it is null; NaN and infinities are null in JSON.

    Raises:
        KeyError: a map holds a key twice.
        OverflowError, TypeError, ValueError: JSON has no form for a value.
    """
    texts = _texts(values)
    return texts if not values.null_count else _nulled(texts, values)


def _texts(values: pa.Array) -> pa.Array:
    """Return the JSON of each value, the text ``null`` for null."""
    kind = values.type
    if pt.is_dictionary(kind):
        return _texts(values.dictionary_decode())
    if pt.is_null(kind):
        return pa.repeat(pa.scalar(_NULL), len(values))
    if pt.is_struct(kind) and kind.num_fields and len({f.name for f in kind}) == kind.num_fields:
        texts = _records(values)
    elif pt.is_list(kind):
        texts = _lists(values)
    elif pt.is_boolean(kind) or pt.is_integer(kind):
        texts = values.cast(pa.string())
    elif pt.is_string(kind) and not _escapes(values):
        texts = pc.binary_join_element_wise('"', values, '"', "")
    else:
        return _each(values)
    return pc.fill_null(_nulled(texts, values), _NULL) if values.null_count else texts


def _nulled(texts: pa.Array, values: pa.Array) -> pa.Array:
    """Return texts, null where the values are."""
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def _records(values: pa.StructArray) -> pa.Array:
    parts: list[str | pa.Array] = []
    for field, member in zip(values.type, values.flatten(), strict=True):
        parts += [("," if parts else "{") + _one(field.name) + ":", _texts(member)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _lists(values: pa.ListArray) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    items = pa.ListArray.from_arrays(offsets, _texts(values.flatten()))
    return pc.binary_join_element_wise("[", pc.binary_join(items, ","), "]", "")


def _escapes(values: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, _ESCAPED)).as_py())


def _each(values: pa.Array) -> pa.Array:
    return pa.array(map(_one, values.to_pylist(maps_as_pydicts="strict")), pa.string())


def _one(value: object) -> str:
    return _ENCODER.encode(value).decode()
