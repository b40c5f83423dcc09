"""Writes one attempt's rows of closed timelabels beside the dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from dil.model.books import ClosedRows
from dil.writing.late_rows import LateRows
from dil.writing.row_labels import RowLabels


class ClosedLabelRows:
    """Takes the rows of closed timelabels out of batches, and writes them as late rows.

    Only labels that were closed at the start of the run count, so a repeated attempt takes out the
    same rows.
    """

    def __init__(
        self,
        late: LateRows,
        labels: RowLabels | None,
        unit_label: str,
        is_closed: Callable[[str], bool],
        watermark: int | None,
    ) -> None:
        """Take the function that labels rows; None if all rows have the label of their work unit.

        ``watermark`` is the event-time watermark that judges rows, epoch ms UTC, None if there is
        none.
        """
        self._late = late
        self._labels = labels
        self._unit_label = unit_label
        self._is_closed = is_closed
        self._watermark = watermark
        self._known: dict[str, bool] = {}
        self._rows: Counter[str] = Counter()

    def left(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Write the rows of closed timelabels; return the other rows of a batch.

        Raises:
            WriteError: the file system refused to write.
            ConversionError: rows have no time for a label, or do not fit each other.
        """
        labels = None if self._labels is None else self._labels.of(batch)
        if labels is None:
            if not self._look(self._unit_label):
                return batch
            self._write(batch, pa.repeat(pa.scalar(self._unit_label), batch.num_rows))
            return batch.slice(0, 0)
        shut = [each for each in pc.unique(labels).to_pylist() if self._look(each)]
        if not shut:
            return batch
        goes = pc.is_in(labels, pa.array(shut, labels.type))
        self._write(batch.filter(goes), labels.filter(goes))
        return batch.filter(pc.invert(goes))

    def counted(self, judged_by: str) -> ClosedRows:
        """Return the number of rows written beside the dataset; see ``ClosedRows``."""
        return ClosedRows(judged_by, tuple(sorted(self._rows.items())))

    def _look(self, label: str) -> bool:
        if label not in self._known:
            self._known[label] = self._is_closed(label)
        return self._known[label]

    def _write(self, batch: pa.RecordBatch, labels: pa.StringArray) -> None:
        self._late.write_labelled(batch, labels, self._watermark)
        for each in pc.value_counts(labels):
            self._rows[each["values"].as_py()] += each["counts"].as_py()
