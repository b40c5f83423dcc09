"""Converts lists, maps and records to JSON text, column by column without Python objects.

Only values with a special JSON form are converted one by one: fractions, decimals, times, bytes,
texts with rare control characters, and maps, which might hold a key twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_RARE = bytes({*range(32), 0x7F} - {*b"\t\n"})
_ESCAPED = bytes({*range(32), 0x7F, *b'"\\'})
# Characters in ordinary texts; the backslash comes first, otherwise it would be escaped again.
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"))
_NULL = "null"


def json_texts(values: pa.Array) -> pa.Array:
    """Return the JSON of each value, null for null; NaN and infinities become null in JSON.

    Raises:
        KeyError: a map holds a key twice.
        OverflowError, TypeError, ValueError: JSON has no form for a value.
    """
    texts = _texts(values)
    return texts if not values.null_count else _nulled(texts, values)


def are_plain(values: pa.Array) -> bool:
    """Return whether each value certainly has a JSON form, so that no check need make the JSON.

    This is false if values are fractions, decimals, times, bytes or maps, or have texts with rare
    characters.
    """
    kind = values.type
    if pt.is_dictionary(kind):
        return are_plain(values.dictionary)
    if _is_record(kind):
        names = pa.array([field.name for field in kind])
        return not _has(_RARE, names) and all(map(are_plain, values.flatten()))
    if pt.is_list(kind):
        return are_plain(values.flatten())
    if pt.is_string(kind):
        return not _has(_RARE, values)
    return bool(pt.is_null(kind) or pt.is_boolean(kind) or pt.is_integer(kind))


def _is_record(kind: pa.DataType) -> bool:
    """Return whether values are records whose members have distinct names."""
    if not pt.is_struct(kind):
        return False
    names = [field.name for field in kind]
    return 0 < len(names) == len(set(names))


def _texts(values: pa.Array) -> pa.Array:
    """Return the JSON of each value, the text ``null`` for null."""
    kind = values.type
    if pt.is_dictionary(kind):
        return _texts(values.dictionary_decode())
    if pt.is_null(kind):
        return pa.repeat(pa.scalar(_NULL), len(values))
    if _is_record(kind):
        texts = _records(values)
    elif pt.is_list(kind):
        texts = _lists(values)
    elif pt.is_boolean(kind) or pt.is_integer(kind):
        texts = values.cast(pa.string())
    elif pt.is_string(kind) and (inside := _escaped(values)) is not None:
        texts = pc.binary_join_element_wise('"', inside, '"', "")
    else:
        return pa.array(map(_one, values.to_pylist(maps_as_pydicts="strict")), pa.string())
    return pc.fill_null(_nulled(texts, values), _NULL) if values.null_count else texts


def _nulled(texts: pa.Array, values: pa.Array) -> pa.Array:
    """Return texts, null wherever the values are null."""
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def _records(values: pa.StructArray) -> pa.Array:
    parts: list[str | pa.Array] = [""]
    for part in _members(values):
        if isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return pc.binary_join_element_wise(*parts, "")


def _members(values: pa.StructArray) -> Iterator[str | pa.Array]:
    """Yield the pieces of each record's JSON; inner records are not made separately."""
    begin = "{"
    for field, member in zip(values.type, values.flatten(), strict=True):
        yield f"{begin}{_one(field.name)}:"
        if not member.null_count and _is_record(member.type):
            yield from _members(member)
        elif (inside := _inside_quotes(member)) is not None:
            yield from ('"', inside, '"')
        else:
            yield _texts(member)
        begin = ","
    yield "}"


def _lists(values: pa.ListArray) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    items = values.flatten()
    inside = _inside_quotes(items)
    quote = "" if inside is None else '"'
    texts = pa.ListArray.from_arrays(offsets, _texts(items) if inside is None else inside)
    joined = pc.binary_join(texts, f"{quote},{quote}")
    whole = pc.binary_join_element_wise(f"[{quote}", joined, f"{quote}]", "")
    return pc.if_else(pc.equal(lengths, 0), "[]", whole) if quote else whole


def _inside_quotes(values: pa.Array) -> pa.Array | None:
    """Return the text between the quotes of each value's JSON, None if not all have quotes."""
    return None if values.null_count or not pt.is_string(values.type) else _escaped(values)


def _escaped(values: pa.StringArray) -> pa.StringArray | None:
    """Return texts in the JSON form between quotes, None if one has a rare character."""
    if not _has(_ESCAPED, values):
        return values
    if _has(_RARE, values):
        return None
    for character, escape in _ESCAPES:
        values = pc.replace_substring(values, character, escape)
    return values


def _has(characters: bytes, values: pa.StringArray) -> bool:
    """Return whether a text has one of some ASCII characters; all texts are checked in one step."""
    _, ends, data = values.buffers()
    if data is None:
        return False
    places = memoryview(ends).cast("i")
    begin, end = places[values.offset], places[values.offset + len(values)]
    text = data.slice(begin, end - begin).to_pybytes()
    return len(text.translate(None, characters)) < len(text)


def _one(value: object) -> str:
    return _ENCODER.encode(value).decode()
