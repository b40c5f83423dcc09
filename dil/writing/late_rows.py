"""Writes the rows of one attempt that are published beside the dataset.

They are late rows, and rows of closed timelabels. They have the dataset's columns, and four more
columns (``LATE_COLUMNS``): the run's now, the watermark, the timelabel, and the run's id. Memory is
bounded by a batch and the format's own buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dil.model.closed_labels import ClosedRows
from dil.model.task import RunContext, StagedFile
from dil.model.work_unit import WorkUnit
from dil.types.schema_lines import LATE_COLUMNS, with_columns
from dil.types.schema_text import parse_schema, schema_text
from dil.writing.rolling import OutputFolder
from dil.writing.staging import StagedWriter
from dil.writing.system_columns import (
    TIMELABEL,
    RowLabels,
    SystemColumns,
    instant_column,
    text_column,
    with_own,
)

LATE_AT, WATERMARK, BATCH = "_late_at", "_watermark", "_batch"
_PREFIX = "late-"
_TIME = "at"


def late_schema(dataset: pa.Schema) -> pa.Schema:
    """Return the columns of files of late rows, for formats that keep no types."""
    return parse_schema(with_columns(schema_text(dataset), LATE_COLUMNS))


class LateRows:
    """Writes the late rows of an attempt; a repeated attempt writes the same rows.

    ``system`` are the system columns of the dataset's rows, None if the rows have none.
    """

    def __init__(
        self,
        output: OutputFolder,
        run: RunContext,
        unit: WorkUnit,
        system: SystemColumns | None,
        label_at: Callable[[int], str] | None,
    ) -> None:
        folder = replace(output.folder, prefix=f"{output.folder.prefix}{_PREFIX}")
        self._writer = StagedWriter(replace(output, folder=folder))
        self._run = run
        self._system = system
        self._unit_label = unit.timelabel or ""
        self._labels = (
            None
            if label_at is None
            else RowLabels(_TIME, self._unit_label, label_at, is_needed=True)
        )

    def write(self, batch: pa.RecordBatch, times: pa.Int64Array, watermark: int) -> None:
        """Append late rows with their event times and the watermark, both in epoch ms UTC.

        Their timelabels are those of the times or, without a schedule, that of the work unit.

        Raises:
            WriteError: the file system refused to write.
            ConversionError: rows do not fit each other, or have a column whose name DIL adds.
        """
        labels = None
        if self._labels is not None:
            column = times.cast(pa.timestamp("ms"))
            labels = self._labels.of(pa.RecordBatch.from_arrays([column], names=[_TIME]))
        if labels is None:
            labels = text_column(self._unit_label, len(times))
        self.write_labelled(batch, labels, watermark)

    def write_labelled(
        self, batch: pa.RecordBatch, labels: pa.StringArray, watermark: int | None
    ) -> None:
        """Append rows with their timelabels and the watermark that judged them, in epoch ms UTC.

        ``watermark`` is None if no watermark judged the rows.

        Raises:
            WriteError: the file system refused to write.
            ConversionError: rows do not fit each other, or have a column whose name DIL adds.
        """
        if self._system is not None:
            batch = self._system.add(batch, labels)
        rows = batch.num_rows
        own = {
            LATE_AT: instant_column(self._run.run_now, rows),
            WATERMARK: instant_column(watermark, rows),
            TIMELABEL: labels,
            BATCH: text_column(self._run.run_id, rows),
        }
        if TIMELABEL in batch.schema.names and self._system is not None:
            del own[TIMELABEL]
        self._writer.write(with_own(batch, own, "DIL adds to late rows"))

    def finish(self) -> tuple[StagedFile, ...]:
        """Finish the files and return them; empty if no row was late.

        Raises:
            WriteError: the file system refused to write.
            ConversionError: rows do not fit each other.
        """
        return self._writer.finish()

    def abort(self) -> None:
        """Delete the written files of an attempt that has no folder of its own."""
        self._writer.abort()


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
            self._write(batch, text_column(self._unit_label, batch.num_rows))
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
