"""Writes the late rows of one attempt, which are published beside the dataset.

Late rows have the dataset's columns, and four more columns (``LATE_COLUMNS``): the run's now, the
watermark, the timelabel, and the run's id. Memory is bounded by a batch and the format's own
buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from dil.model.arrow import TYPE_KEY
from dil.model.task import RunContext, StagedFile
from dil.model.work_unit import WorkUnit
from dil.types.schema_lines import LATE_COLUMNS, with_columns
from dil.types.schema_text import parse_schema, schema_text
from dil.writing.rolling import OutputFolder
from dil.writing.row_labels import RowLabels
from dil.writing.staging import StagedWriter
from dil.writing.system_columns import TIMELABEL, SystemColumns, without_own

LATE_AT, WATERMARK, BATCH = "_late_at", "_watermark", "_batch"
_PREFIX = "late-"
_INSTANT = pa.timestamp("us", tz="UTC")
_US_PER_MS = 1000
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
        self._unit = unit
        self._system = system
        self._labels = (
            None
            if label_at is None
            else RowLabels(_TIME, unit.timelabel or "", label_at, is_needed=True)
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
            instants = times.cast(pa.timestamp("ms"))
            labels = self._labels.of(pa.RecordBatch.from_arrays([instants], names=[_TIME]))
        if labels is None:
            labels = pa.repeat(pa.scalar(self._unit.timelabel or "", pa.string()), len(times))
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
        own: dict[str, tuple[pa.Array, bytes]] = {
            LATE_AT: (self._instants(self._run.run_now, batch.num_rows), b"timestamp"),
            WATERMARK: (self._instants(watermark, batch.num_rows), b"timestamp"),
            TIMELABEL: (labels, b"string"),
            BATCH: (pa.repeat(pa.scalar(self._run.run_id), batch.num_rows), b"string"),
        }
        if TIMELABEL in batch.schema.names and self._system is not None:
            del own[TIMELABEL]
        batch = without_own(batch, tuple(own), "DIL adds to late rows")
        fields = [
            pa.field(name, values.type, metadata={TYPE_KEY: word})
            for name, (values, word) in own.items()
        ]
        columns = [*batch.columns, *(values for values, _ in own.values())]
        schema = pa.schema([*batch.schema, *fields])
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))

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

    def _instants(self, ms: int | None, rows: int) -> pa.Array:
        if ms is None:
            return pa.nulls(rows, _INSTANT)
        return pa.repeat(pa.scalar(ms * _US_PER_MS, _INSTANT), rows)
