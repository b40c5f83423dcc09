"""Gives each row its timelabel if the rows of one work unit are in several periods.

See rule T12.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError, PlanningError

_INSTANT_MS = pa.timestamp("ms")


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
        times = None if place < 0 else _instants(batch.column(place))
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
        minutes = pc.floor_temporal(times, unit="minute").cast(_INSTANT_MS).cast(pa.int64())
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


def _instants(times: pa.Array) -> pa.Array | None:
    """Return instants in UTC, None if the column holds no times."""
    kind = times.type
    if pa.types.is_null(kind) or pa.types.is_date(kind) or pa.types.is_int64(kind):
        return times.cast(_INSTANT_MS)
    if pa.types.is_timestamp(kind):
        return times.cast(pa.timestamp(kind.unit))
    return None
