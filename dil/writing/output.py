"""The last steps before rows are written: system columns, labels, separation of rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from dil.model.destination import Layout, TableFormat, TableKind
from dil.model.job import Job
from dil.model.task import RunContext, StagedFile
from dil.model.timelabels import label_folder
from dil.model.work_unit import WorkUnit
from dil.writing.late_rows import ClosedLabelRows, LateRows
from dil.writing.partitioned import PartitionedWriter, RowPartitioning
from dil.writing.rolling import OutputFolder
from dil.writing.staging import StagedWriter
from dil.writing.system_columns import RUN_ID, SIGNATURE, TIMELABEL, RowLabels, SystemColumns


class OutputWriter:
    """Writes the rows of one attempt with the steps that the job configures."""

    def __init__(
        self,
        writer: StagedWriter | PartitionedWriter,
        system: SystemColumns | None,
        labels: RowLabels | None,
    ) -> None:
        self._writer = writer
        self._system = system
        self._labels = labels

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema that fits all rows so far, None before the first row."""
        return self._writer.schema

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in the typed form of ``dil.model.arrow``.

        Raises:
            WriteError: the file system refused to write.
            ConversionError: rows do not fit the job's settings, each other, or the format.
        """
        if batch.num_rows == 0:
            return
        labels = None if self._labels is None else self._labels.of(batch)
        if self._system is not None:
            batch = self._system.add(batch, labels)
        if isinstance(self._writer, PartitionedWriter):
            self._writer.write(batch, labels)
        else:
            self._writer.write(batch)

    def finish(self) -> tuple[StagedFile, ...]:
        """Finish and return the files; see the writers' ``finish``."""
        return self._writer.finish()

    def abort(self) -> None:
        """Delete all written files; a file that is already gone is no error."""
        self._writer.abort()


def output_writer(
    run: RunContext,
    unit: WorkUnit,
    writer: StagedWriter,
    output: OutputFolder,
    *,
    extracted_ms: int,
    label_at: Callable[[int], str] | None,
) -> OutputWriter | None:
    """Return the writer of an attempt's rows; None if the plain ``writer`` is enough.

    Args:
        run: The values that all tasks of the run share.
        unit: The work unit.
        writer: The writer for rows that are not separated.
        output: The folder of files of separated rows.
        extracted_ms: The start of the attempt, epoch ms UTC.
        label_at: Returns the label of an instant in epoch ms UTC; None for a job without
            timelabels.
    """
    job = run.job
    names, fields = job.writing.system_columns, job.publishing.table.partition_fields
    labels = None if label_at is None else _row_labels(job, unit, label_at)
    if not names and not fields and labels is None:
        return None
    system = _system_columns(run, unit, extracted_ms)
    if not fields and labels is None:
        return OutputWriter(writer, system, None)
    is_by_label = job.publishing.layout is Layout.TIMELABEL
    partitioning = RowPartitioning(
        fields,
        keeps_columns=job.publishing.table.format is TableFormat.ICEBERG,
        folder=label_folder(unit.timelabel) if is_by_label and unit.timelabel else "",
        labels_name_folders=is_by_label,
        most_open=job.writing.most_open_files,
    )
    return OutputWriter(PartitionedWriter(output, partitioning), system, labels)


def late_rows(
    run: RunContext,
    unit: WorkUnit,
    output: OutputFolder,
    *,
    extracted_ms: int,
    label_at: Callable[[int], str] | None,
) -> LateRows:
    """Return the writer of an attempt's late rows; arguments as for ``output_writer``."""
    return LateRows(output, run, unit, _system_columns(run, unit, extracted_ms), label_at)


def closed_label_rows(
    run: RunContext,
    unit: WorkUnit,
    late: LateRows,
    *,
    label_at: Callable[[int], str],
    is_closed: Callable[[str], bool],
) -> ClosedLabelRows:
    """Return the filter that takes rows of closed timelabels out of an attempt.

    Args:
        run: The values that all tasks of the run share.
        unit: The work unit.
        late: The writer to which the rows go.
        label_at: Returns the label of an instant in epoch ms UTC.
        is_closed: Returns whether a timelabel is closed.
    """
    watermark = None if run.events is None else run.events.effective
    labels = _row_labels(run.job, unit, label_at)
    return ClosedLabelRows(late, labels, unit.timelabel or "", is_closed, watermark)


def _system_columns(run: RunContext, unit: WorkUnit, extracted_ms: int) -> SystemColumns | None:
    names = run.job.writing.system_columns
    if not names:
        return None
    texts = {RUN_ID: run.run_id, SIGNATURE: unit.signature, TIMELABEL: unit.timelabel or ""}
    return SystemColumns(names, texts, extracted_ms)


def _row_labels(job: Job, unit: WorkUnit, label_at: Callable[[int], str]) -> RowLabels | None:
    """Return the function that labels rows; None if all rows have the work unit's label.

    A column that the job names is always used. Otherwise the watermark's column is used, if labels
    decide the place of rows and the work unit covers several periods (rule T12).
    """
    spec, label = job.planning.timelabel, unit.timelabel or ""
    if spec is None:
        return None
    if spec.column:
        return RowLabels(spec.column, label, label_at, is_needed=True)
    warehouse = job.publishing.warehouse
    is_cut = warehouse is not None and warehouse.kind is TableKind.TIMESERIES
    is_by_label = is_cut or job.publishing.layout is Layout.TIMELABEL
    if not spec.is_dated or job.running.page_commit_s is not None or not is_by_label:
        return None
    part = unit.partition
    if label_at(part.low) == label_at(part.high - 1):
        return None
    return RowLabels(job.planning.datetime_name, label, label_at, is_needed=False)
