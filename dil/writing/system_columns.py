"""Adds columns that show the origin of a row: ``ms.output.system.columns``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.arrow import TYPE_KEY

RUN_ID = "_dil_run_id"
SIGNATURE = "_dil_signature"
EXTRACTED_AT = "_dil_extracted_at"
TIMELABEL = "_timelabel"
_INSTANT = pa.timestamp("us", tz="UTC")
_US_PER_MS = 1000


class SystemColumns:
    """Appends the chosen columns to batches; all are nullable, like all columns added later.

    A row keeps the values of the attempt that read it: if a later run adopts or continues staged
    rows of an earlier run, these rows have the earlier run's id.
    """

    def __init__(self, names: Sequence[str], texts: Mapping[str, str], extracted_ms: int) -> None:
        """Take the names in the order of the columns, and the values that all rows share.

        ``texts`` are the values by name, ``extracted_ms`` is epoch ms UTC.
        """
        self._names = tuple(names)
        self._texts = texts
        self._extracted = pa.scalar(extracted_ms * _US_PER_MS, _INSTANT)

    def add(self, batch: pa.RecordBatch, labels: pa.Array | None) -> pa.RecordBatch:
        """Return the batch with its system columns; ``labels`` are the rows' timelabels, if any.

        Raises:
            ConversionError: the source has a column with the name of a system column, and the
                column holds values.
        """
        batch = without_own(batch, self._names, "is one of ms.output.system.columns")
        arrays, fields = [], []
        for name in self._names:
            word = b"string"
            if name == EXTRACTED_AT:
                values, word = pa.repeat(self._extracted, batch.num_rows), b"timestamp"
            elif name == TIMELABEL and labels is not None:
                values = labels
            else:
                values = pa.repeat(pa.scalar(self._texts[name], pa.string()), batch.num_rows)
            arrays.append(values)
            fields.append(pa.field(name, values.type, metadata={TYPE_KEY: word}))
        schema = pa.schema([*batch.schema, *fields])
        return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema)


def without_own(batch: pa.RecordBatch, names: Sequence[str], whose: str) -> pa.RecordBatch:
    """Remove columns of these lower-case names that a schema contract filled with null.

    The dataset's recorded schema has these columns, but the source does not.

    Raises:
        ConversionError: the source has a column of one of these names, and the column holds values;
            ``whose`` says why that is forbidden, as a clause after "which".
    """
    own = [name for name in batch.schema.names if name.lower() in names]
    for name in own:
        column = batch.column(name)
        if column.null_count < len(column):
            raise ConversionError(
                f'the source has a column "{name}", which {whose}',
                "Remove the name from the property, or rename the source's column with"
                " ms.schema.cleansing.",
            )
    return batch.drop_columns(own) if own else batch
