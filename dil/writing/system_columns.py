"""What DIL knows about each row: the columns of its origin, and its timelabel.

See ``ms.output.system.columns``, and rule T12 for the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError, PlanningError
from dil.model.arrow import TYPE_KEY, word_of

RUN_ID = "_dil_run_id"
SIGNATURE = "_dil_signature"
EXTRACTED_AT = "_dil_extracted_at"
TIMELABEL = "_timelabel"
_INSTANT = pa.timestamp("us", tz="UTC")
_MILLISECONDS = pa.timestamp("ms")


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
        self._extracted_ms = extracted_ms

    def add(self, batch: pa.RecordBatch, labels: pa.Array | None) -> pa.RecordBatch:
        """Return the batch with its system columns; ``labels`` are the rows' timelabels, if any.

        Raises:
            ConversionError: the source has a column with the name of a system column, and the
                column holds values.
        """
        own: dict[str, pa.Array] = {}
        for name in self._names:
            if name == EXTRACTED_AT:
                own[name] = instant_column(self._extracted_ms, batch.num_rows)
            elif name == TIMELABEL and labels is not None:
                own[name] = labels
            else:
                own[name] = text_column(self._texts[name], batch.num_rows)
        return with_own(batch, own, "is one of ms.output.system.columns")


def text_column(text: str, rows: int) -> pa.Array:
    """Return a column that has one text in all rows."""
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def instant_column(ms: int | None, rows: int) -> pa.Array:
    """Return a column that has one instant in all rows, epoch ms UTC, or null."""
    if ms is None:
        return pa.nulls(rows, _INSTANT)
    return pa.repeat(pa.scalar(ms * 1000, _INSTANT), rows)


def with_own(batch: pa.RecordBatch, own: Mapping[str, pa.Array], whose: str) -> pa.RecordBatch:
    """Return a batch with columns that DIL adds; their names are in lower case.

    If the batch has columns of these names that are all null, they are left out: a schema contract
    made them, because the dataset's recorded schema has them and the source does not.

    Raises:
        ConversionError: the source has a column of one of these names, and the column holds values;
            ``whose`` says why that is forbidden, as a clause after "which".
    """
    filled = [name for name in batch.schema.names if name.lower() in own]
    for name in filled:
        column = batch.column(name)
        if column.null_count < len(column):
            raise ConversionError(
                f'the source has a column "{name}", which {whose}',
                "Remove the name from the property, or rename the source's column with"
                " ms.schema.cleansing.",
            )
    if filled:
        batch = batch.drop_columns(filled)
    fields = [
        pa.field(name, values.type, metadata={TYPE_KEY: word_of(values.type).encode()})
        for name, values in own.items()
    ]
    schema = pa.schema([*batch.schema, *fields])
    return pa.RecordBatch.from_arrays([*batch.columns, *own.values()], schema=schema)


class RowLabels:
    """Labels rows by the time in a column.

    A row without a time has the label of its work unit. Whole numbers are epoch milliseconds;
    dates begin at midnight UTC.
    """

    def __init__(
        self, column: str, unit_label: str, label_at: Callable[[int], str], *, is_needed: bool
    ) -> None:
        """Take the column, and the function that labels an instant in epoch ms UTC.

        If ``is_needed`` is true, the column must exist and hold times. If ``is_needed`` is false,
        the column is used if it holds times; if not, all rows have the label of their work unit.
        """
        self._column = column
        self._unit_label = unit_label
        self._label_at = label_at
        self._is_needed = is_needed

    def of(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the label of each row; None if each row has the label of the work unit.

        Raises:
            ConversionError: the column is missing, or holds no times, or holds a time outside of
                the years that have labels.
        """
        place = batch.schema.get_field_index(self._column)
        times = None if place < 0 else _times_in_utc(batch.column(place))
        if times is None:
            if not self._is_needed:
                return None
            what = "but the rows have no such column"
            if place >= 0:
                what = f"which holds {batch.schema.field(place).type} and no times"
            raise ConversionError(
                f'ms.timelabel.column is "{self._column}", {what}',
                "Name a column of timestamps, of dates or of epoch milliseconds. Texts become"
                " timestamps if ms.output.schema declares the column as such.",
            )
        # Periods begin at whole minutes, and a batch has few distinct minutes.
        minutes = pc.floor_temporal(times, unit="minute").cast(_MILLISECONDS).cast(pa.int64())
        known = minutes.dictionary_encode()
        starts: list[int] = known.dictionary.to_pylist()
        # The minutes are sorted, because a schedule finds neighbouring minutes quickly.
        labels = {}
        for at in sorted(starts):
            try:
                labels[at] = self._label_at(at)
            except PlanningError as error:
                raise ConversionError(
                    f'ms.timelabel.column is "{self._column}", and a row has a time of which '
                    f"{error.message}",
                    "Correct the time at its source, or make it null: a row without a time has the "
                    "label of its work unit.",
                ) from error
        by_row = pa.array([labels[at] for at in starts], pa.string()).take(known.indices)
        return by_row.fill_null(self._unit_label)


def _times_in_utc(times: pa.Array) -> pa.Array | None:
    """Return instants in UTC, None if the column holds no times."""
    kind = times.type
    if pa.types.is_null(kind) or pa.types.is_date(kind) or pa.types.is_int64(kind):
        return times.cast(_MILLISECONDS)
    if pa.types.is_timestamp(kind):
        return times.cast(pa.timestamp(kind.unit))
    return None
