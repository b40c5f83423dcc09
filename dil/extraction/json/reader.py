"""Calls Arrow's own JSON reader, except for texts that the reader would read wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from dil.extraction.json.document import NULL, is_null
from dil.types.lattice import MOST_DIGITS

# Digits and points become "0": a run of "0" may be a long number, and an "e" an exponent.
RUNS = "".join(
    "0" if letter in "0123456789." else "e" if letter in "eE" else "+" if letter == "+" else "_"
    for letter in map(chr, range(256))
).encode()
_POWER = re.compile(rb"""[":,\[\s]-?[0-9.]+[eE]\+?[0-9]+[",\]}\s]""")


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
