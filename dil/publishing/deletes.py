"""Recognises rows that delete their key."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dil.model.destination import MergeSpec


def are_deletes(batch: pa.RecordBatch, spec: MergeSpec) -> pa.Array:
    """Return for each row whether its operation is a word for deletes, in any letter case."""
    if spec.op_field not in batch.schema.names:
        return pa.repeat(pa.scalar(value=False), batch.num_rows)
    operations = batch.column(spec.op_field).cast(pa.string())
    words = set(map(_folded, spec.delete_words))
    distinct = pc.unique(operations).drop_null().to_pylist()
    found = [each for each in distinct if _folded(each) in words]
    return pc.is_in(operations, value_set=pa.array(found, pa.string()))


def _folded(word: str) -> str:
    # In Turkish "i" is the small letter of "İ"; casefold() makes "i" and a combining dot of it.
    return word.casefold().replace("i\u0307", "i")
