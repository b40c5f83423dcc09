"""The session of a work unit if Spark reads its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from connectors.jdbc.settings import JdbcSettings
from connectors.jdbc.shape import ResultShape
from connectors.jdbc.spark_reader import READER
from dil.errors import ConfigError
from dil.spi.connector import RequestValues, RowSession

if TYPE_CHECKING:
    import pyarrow as pa


class SparkRows(RowSession):
    """Yields, as one page, the rows that Spark reads, with the job's columns and names."""

    def __init__(self, settings: JdbcSettings, rows: Iterator[pa.RecordBatch] | None) -> None:
        if rows is None:
            raise ConfigError.single(
                READER,
                "is spark, and only a run reads with Spark",
                f"Use `dil run`; or add -D {READER}=driver if there is a Python driver for the"
                " database.",
            )
        self._shape = ResultShape(settings)
        self._rows = rows

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches; Spark's statement already contains the request's values.

        Raises:
            SourceContractError: the columns contradict the job.
            TransientSourceError: fewer rows came than Spark read.
        """
        del values
        for batch in self._rows:
            shaped = self._shape.shaped(batch)
            self.left_out = self._shape.left_out
            yield shaped
