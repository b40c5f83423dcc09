"""The source of a job, as ``format("dil")`` reads it: columns, rows, a stream of rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dil.execution.spark_types import arrow_schema
from dil.spark.failing import shown_errors
from dil.spark.fitting import Fit
from dil.spark.options import SourceOptions
from dil.spark.source_plans import planned_units, source_job, source_schema
from dil.spark.source_streams import SourceStreamReader
from dil.spark.work_units import WorkUnitsReader


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a source that the options ask for; can be pickled."""

    options: SourceOptions

    def columns(self) -> pa.Schema:
        """Return the columns of the source.

        Raises:
            DilQueryError: the job file is wrong, or the columns are unknown.
        """
        with shown_errors():
            job = source_job(self.options)
        with shown_errors(job):
            return source_schema(self.options, job)

    def reader(self, schema: StructType, *, is_inferred: bool) -> DataSourceReader:
        """Return the reader of the due work units.

        Raises:
            DilQueryError: the job file is wrong, or the plan or the state cannot be read.
        """
        with shown_errors():
            job = source_job(self.options)
        with shown_errors(job):
            units, context = planned_units(job, self.options)
            return WorkUnitsReader(units, context, Fit(arrow_schema(schema), is_inferred))

    def stream(self, schema: StructType, *, is_inferred: bool) -> DataSourceStreamReader:
        """Return the reader of a stream.

        Raises:
            DilQueryError: the job file is wrong, or its source cannot be streamed.
        """
        with shown_errors():
            job = source_job(self.options)
        with shown_errors(job):
            return SourceStreamReader(job, self.options, Fit(arrow_schema(schema), is_inferred))
