"""The data source: chooses the reader that the options ask for, and gives its columns.

Spark makes the data source in a process beside the driver, pickles it for other processes, and
shows its name in plans. So the data source holds the options as given and as parsed, and never a
secret of the job. Each of these processes imports only the readers that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dil.errors import ConfigError
from dil.execution.spark_types import spark_schema
from dil.model.messages import nearest
from dil.spark.failing import shown_errors
from dil.spark.options import SourceOptions

if TYPE_CHECKING:
    from dil.spark.dataset_rows import DatasetRows
    from dil.spark.source_rows import SourceRows


class DilDataSource(DataSource):
    """``format("dil")``: the source of a job (``conf``), or its dataset (``dataset``)."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        with shown_errors():
            self._options = SourceOptions.of(options)
        self._opened: SourceRows | DatasetRows | None = None
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
        found = self._rows().columns()
        with shown_errors():
            return spark_schema(_selected(found, self._options.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the rows for a query.

        Raises:
            DilQueryError: the job file is wrong, or the plan or the state cannot be read.
        """
        return self._rows().reader(schema, is_inferred=self._is_inferred)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream.

        Raises:
            DilQueryError: the job file is wrong, its source cannot be streamed, or nothing was
                published.
        """
        return self._rows().stream(schema, is_inferred=self._is_inferred)

    def _rows(self) -> SourceRows | DatasetRows:
        if self._opened is None:
            if self._options.conf:
                from dil.spark.source_rows import SourceRows

                self._opened = SourceRows(self._options)
            else:
                from dil.spark.dataset_rows import DatasetRows

                self._opened = DatasetRows(self._options)
        return self._opened


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
