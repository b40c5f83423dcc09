"""The data source: chooses the reader that the options ask for, and gives its columns.

Spark makes it in a process beside the driver, hands it to others by pickling it, and shows its name
in plans: it holds the options as given and as parsed, and never a secret of the job. Each of these
processes imports only the readers that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dil.errors import ConfigError
from dil.model.suggestions import nearest
from dil.spark.failing import shown_errors
from dil.spark.options import SourceOptions

if TYPE_CHECKING:
    from dil.spark.datasets import DatasetView


class DilDataSource(DataSource):
    """``format("dil")``: the source of a job (``conf``), or its dataset (``dataset``)."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        with shown_errors():
            self._options = SourceOptions.of(options)
        self._view: DatasetView | None = None
        self._is_inferred = False

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "dil"

    def schema(self) -> StructType:
        """Return the columns; Spark calls this if the user names none.

        Raises:
            DilQueryError: the job file is wrong, or the columns are unknown.
        """
        self._is_inferred = not self._options.columns
        found = self._source_schema() if self._options.conf else self._dataset_schema()
        from dil.execution.spark_types import spark_schema

        with shown_errors():
            return spark_schema(_selected(found, self._options.columns))

    def _source_schema(self) -> pa.Schema:
        from dil.spark.source_plans import source_job, source_schema

        with shown_errors():
            job = source_job(self._options)
        with shown_errors(job):
            return source_schema(self._options, job)

    def _dataset_schema(self) -> pa.Schema:
        from dil.spark.datasets import DatasetView, dataset_job

        with shown_errors():
            job = dataset_job(self._options)
        with shown_errors(job):
            self._view = DatasetView.of(job, self._options)
            if not self._view.known.names:
                raise ConfigError.single(
                    "dataset",
                    "has no rows yet, and so no columns",
                    'Run the job first, or give them: .schema("id bigint, name string").',
                )
            return self._view.known

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the rows for a query.

        Raises:
            DilQueryError: the job file is wrong, or the plan or the state cannot be read.
        """
        return self._source_reader(schema) if self._options.conf else self._dataset_reader(schema)

    def _source_reader(self, schema: StructType) -> DataSourceReader:
        from dil.execution.spark_types import arrow_schema
        from dil.spark.fitting import Fit
        from dil.spark.source_plans import planned_units, source_job
        from dil.spark.work_units import WorkUnitsReader

        with shown_errors():
            job = source_job(self._options)
        with shown_errors(job):
            fit = Fit(arrow_schema(schema), self._is_inferred)
            return WorkUnitsReader(*planned_units(job, self._options), fit)

    def _dataset_reader(self, schema: StructType) -> DataSourceReader:
        from dil.execution.spark_types import arrow_schema
        from dil.spark.datasets import DatasetReader, DatasetView, dataset_job

        with shown_errors():
            job = dataset_job(self._options)
        with shown_errors(job):
            view = self._view or DatasetView.of(job, self._options)
            return DatasetReader(job, self._options, view, arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's
        """Return the reader of a stream.

        Raises:
            DilQueryError: the job file is wrong, its source cannot be streamed, or nothing was
                published.
        """
        if self._options.conf:
            return self._source_stream(schema)
        from dil.execution.spark_types import arrow_schema
        from dil.spark.datasets import dataset_job
        from dil.spark.streams import DatasetStreamReader

        with shown_errors():
            job = dataset_job(self._options)
        with shown_errors(job):
            return DatasetStreamReader(job, self._options, arrow_schema(schema))

    def _source_stream(self, schema: StructType) -> DataSourceStreamReader:
        from dil.execution.spark_types import arrow_schema
        from dil.spark.fitting import Fit
        from dil.spark.source_plans import source_job
        from dil.spark.source_streams import SourceStreamReader

        with shown_errors():
            job = source_job(self._options)
        with shown_errors(job):
            fit = Fit(arrow_schema(schema), self._is_inferred)
            return SourceStreamReader(job, self._options, fit)


def _selected(schema: pa.Schema, columns: tuple[str, ...]) -> pa.Schema:
    """Return the requested columns, in their order.

    Raises:
        ConfigError: there is no such column.
    """
    for name in columns:
        if name not in schema.names:
            shown = f"The columns are: {', '.join(schema.names)}."
            raise ConfigError.single(
                "columns", f'names "{name}"', nearest(name, schema.names, shown)
            )
    return pa.schema([schema.field(name) for name in columns]) if columns else schema
