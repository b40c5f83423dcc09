"""The dataset of a job, as ``format("dil")`` reads it: columns, rows, a stream of rows."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dil.errors import ConfigError
from dil.execution.spark_types import arrow_schema
from dil.spark.datasets import DatasetReader, DatasetView, dataset_job
from dil.spark.failing import shown_errors
from dil.spark.options import SourceOptions
from dil.spark.streams import DatasetStreamReader


class DatasetRows:
    """The rows of a dataset that the options ask for; can be pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view: DatasetView | None = None

    def columns(self) -> pa.Schema:
        """Return the columns of the dataset; later calls read the rows that it has now.

        Raises:
            DilQueryError: the job file is wrong, or the dataset has no rows yet.
        """
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

    def reader(self, schema: StructType, *, is_inferred: bool) -> DataSourceReader:
        """Return the reader of the published rows.

        Raises:
            DilQueryError: the job file is wrong, or the state cannot be read.
        """
        del is_inferred
        with shown_errors():
            job = dataset_job(self._options)
        with shown_errors(job):
            view = self._view or DatasetView.of(job, self._options)
            return DatasetReader(job, self._options, view, arrow_schema(schema))

    def stream(self, schema: StructType, *, is_inferred: bool) -> DataSourceStreamReader:
        """Return the reader of a stream.

        Raises:
            DilQueryError: the job file is wrong, or nothing was published.
        """
        del is_inferred
        with shown_errors():
            job = dataset_job(self._options)
        with shown_errors(job):
            return DatasetStreamReader(job, self._options, arrow_schema(schema))
