"""Calls Arrow's own JSON reader, except for texts that the reader would read wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import ClassVar, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from dil.extraction.json.document import NULL, is_null
from dil.extraction.numbers import EXACT_IN_DOUBLE, exact_number
from dil.extraction.shapes import FoundNumbers, FoundShape
from dil.types.lattice import MOST_DIGITS

# Digits and points become "0": a run of "0" may be a long number, and an "e" an exponent.
RUNS = "".join(
    "0" if letter in "0123456789." else "e" if letter in "eE" else "+" if letter == "+" else "_"
    for letter in map(chr, range(256))
).encode()
_POWER = re.compile(rb"""[":,\[\s]-?[0-9.]+[eE]\+?[0-9]+[",\]}\s]""")
# A run of digits and points of this length may be a number that no double holds.
_LONG_RUN = b"0" * 16
_LONG_NUMBER = re.compile(rb"[0-9.]+(?:[eE][-+]?[0-9]+)?")
_TINY = re.compile(rb"[eE]-[0-9]{3}")
_TINY_NUMBER = re.compile(rb"[0-9.]+[eE]-[0-9]{3,}")


def joined(rows: Sequence[msgspec.Raw]) -> bytes:
    """Return raw rows as one text, a row a line."""
    return b"\n".join(rows)


class ArrowReader:
    """Reads rows of one schema with Arrow's own JSON reader.

    ``others`` says whether members that are not columns raise an error or are ignored.
    """

    def __init__(self, schema: pa.Schema, *, others: Literal["error", "ignore"]) -> None:
        self._options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
        self._largest_scale = max(_scales(field.type for field in schema), default=None)

    def read(self, rows: Sequence[msgspec.Raw], text: bytes) -> pa.RecordBatch | None:
        """Return rows as one batch, None if a value does not fit the schema.

        ``text`` is all rows, joined.
        """
        # The reader takes null for an empty object, and crashes if it is the first row. Lengths are
        # compared first, because they are found ten times as fast.
        if len(NULL) in map(len, rows) and any(map(is_null, rows)):
            return None
        if self._largest_scale is not None and _may_overflow(text, self._largest_scale):
            return None
        one_block = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        try:
            # ``read_json`` also waits for other threads; a small page is read in less time.
            batch = pj.open_json(pa.BufferReader(text), one_block, self._options).read_next_batch()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        return batch if batch.num_rows == len(rows) else None


def _may_overflow(text: bytes, scale: int) -> bool:
    """Return whether a number may have too many digits for a decimal column with this scale.

    The reader multiplies a number by ten to the scale in 128 bits. If the result is too large, it
    gives a wrong number without an error.
    """
    runs = text.translate(RUNS)
    if b"0" * (MOST_DIGITS - scale + 1) in runs:
        return True
    # Identifiers contain such parts too, so the exact pattern decides.
    return (b"0e0" in runs or b"0e+0" in runs) and _POWER.search(text) is not None


def _scales(kinds: Iterable[pa.DataType]) -> Iterator[int]:
    """Yield the scales of decimals at all depths."""
    for kind in kinds:
        if pa.types.is_decimal(kind):
            yield kind.scale
        yield from _scales(kind.field(i).type for i in range(kind.num_fields))


class ArrowFastPath:
    """Reads pages whose values all fit the known columns, several times faster than value by value.

    If a value would change a column's type, or lose a digit, ``read`` returns None: the page has to
    be read value by value. Both ways of reading a page leave the same shape.

    The class does not try a page of fewer than ``few_rows`` rows: starting the reader costs more.
    After a refusal it skips the next pages, twice as many each time, up to ``most_patience``.
    """

    few_rows: ClassVar[int] = 50
    most_patience: ClassVar[int] = 256

    def __init__(self) -> None:
        self._shape: FoundShape | None = None
        self._schema = pa.schema([])
        self._reader = ArrowReader(self._schema, others="error")
        self._has_doubles = False
        self._refused = 0
        self._skipping = 0

    def learn(self, shape: FoundShape, schema: pa.Schema) -> None:
        """Keep the current columns; ``schema`` is the schema of ``shape``."""
        members = None if shape.holds_decimals() else _readable_members(shape, schema)
        self._shape = None if members is None else shape
        self._schema = schema
        trial = pa.schema(members or ())
        self._reader = ArrowReader(trial, others="error")
        self._has_doubles = any(_holds_double(field.type) for field in trial)

    def forget(self) -> None:
        """Read nothing until columns are learned again."""
        self._shape = None

    def read(self, parts: Sequence[Sequence[msgspec.Raw]]) -> list[pa.RecordBatch] | None:
        """Return a batch for each part of a page; None if it has to be read value by value."""
        if self._shape is None or sum(map(len, parts)) < self.few_rows or not self._is_patient():
            return None
        batches = []
        for part in parts:
            batch = self._read(self._shape, part)
            if batch is None:
                self._refused += 1
                self._skipping = min(2**self._refused, self.most_patience)
                return None
            batches.append(batch)
        self._refused = 0
        return batches

    def _is_patient(self) -> bool:
        """Return whether to try a page: not right after refusals, which cost a second reading."""
        self._skipping = max(self._skipping - 1, 0)
        return self._skipping == 0

    def _read(self, shape: FoundShape, rows: Sequence[msgspec.Raw]) -> pa.RecordBatch | None:
        text = joined(rows)
        batch = self._reader.read(rows, text)
        if batch is None:
            return None
        values = batch.to_struct_array()
        if self._has_doubles and (_loses_digits(text) or not _doubles_are_exact(values)):
            return None
        _take_over_ranges(shape, values)
        return batch.cast(self._schema)


def _readable_type(shape: FoundShape, kind: pa.DataType) -> pa.DataType | None:
    """Return the type to read a column with; the null type if only nulls were seen.

    The result is None if the reader cannot be trusted with the column.
    """
    if not shape.kinds:
        return pa.null()
    if pa.types.is_map(kind) or pa.types.is_decimal(kind):
        return None
    if pa.types.is_struct(kind):
        members = _readable_members(shape, kind)
        return None if members is None else pa.struct(members)
    if pa.types.is_list(kind):
        item = _readable_type(shape.items or FoundShape(), kind.value_type)
        # The reader makes broken arrays from lists that hold only nulls.
        return None if item is None or pa.types.is_null(item) else pa.list_(item)
    return kind


def _readable_members(
    shape: FoundShape, fields: Iterable[pa.Field]
) -> list[tuple[str, pa.DataType]] | None:
    members = []
    for field in fields:
        kind = _readable_type(shape.members[field.name], field.type)
        if kind is None:
            return None
        members.append((field.name, kind))
    return members


def _holds_double(kind: pa.DataType) -> bool:
    if kind.num_fields:
        return any(_holds_double(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _loses_digits(text: bytes) -> bool:
    """Return whether any number in a text, except integers, has no exact double."""
    numbers = _long_numbers(text)
    if (b"e-" in text or b"E-" in text) and _TINY.search(text):
        numbers += _TINY_NUMBER.findall(text)
    return any(map(_has_no_double, numbers))


def _long_numbers(text: bytes) -> list[bytes]:
    """Return parts of a text, also in strings, that look like numbers of 16 characters or more."""
    numbers = []
    runs = text.translate(RUNS)
    begin = runs.find(_LONG_RUN)
    while begin >= 0:
        found = _LONG_NUMBER.match(text, begin)
        end = found.end() if found else begin + len(_LONG_RUN)
        numbers.append(text[begin:end])
        begin = runs.find(_LONG_RUN, end)
    return numbers


def _has_no_double(number: bytes) -> bool:
    if number.isdigit():
        return False
    try:
        return isinstance(exact_number(number.decode()), Decimal)
    except ValueError:  # This is a part of a string that only looks like a number.
        return False


def _doubles_are_exact(array: pa.Array) -> bool:
    """Return whether all integers in a column of doubles certainly kept their digits."""
    if pa.types.is_struct(array.type):
        return all(map(_doubles_are_exact, array.flatten()))
    if pa.types.is_list(array.type):
        return _doubles_are_exact(array.flatten())
    if not pa.types.is_floating(array.type):
        return True
    limits = pc.min_max(array)
    low, high = limits["min"].as_py(), limits["max"].as_py()
    return low is None or (low > -EXACT_IN_DOUBLE and high < EXACT_IN_DOUBLE)


def _take_over_ranges(shape: FoundShape, array: pa.Array) -> None:
    """Add the range of a batch's integers to a shape, because a later fraction may need it."""
    if pa.types.is_struct(array.type):
        for field, child in zip(array.type, array.flatten(), strict=True):
            _take_over_ranges(shape.members[field.name], child)
    elif pa.types.is_list(array.type) and shape.items is not None:
        _take_over_ranges(shape.items, array.flatten())
    elif pa.types.is_integer(array.type) and array.null_count < len(array):
        limits = pc.min_max(array)
        shape.numbers.widen(FoundNumbers(limits["min"].as_py(), limits["max"].as_py()))
