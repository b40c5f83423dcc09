"""The session of a work unit that Spark reads."""

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
    """Hands on the rows that Spark reads, with the job's names and columns; on one page."""

    def __init__(self, settings: JdbcSettings, rows: Iterator[pa.RecordBatch] | None) -> None:
        if rows is None:
            raise ConfigError.single(
                READER,
                "is spark, which only a run has",
                f"`dil run` reads; a look works with -D {READER}=driver where there is a Python"
                " driver.",
            )
        self._shape = ResultShape(settings)
        self._rows = rows

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Yield the rows; their statement has the values of the request already.

        Raises:
            SourceContractError: columns are not as the job says.
            TransientSourceError: rows are missing at the end.
        """
        del values
        for batch in self._rows:
            shaped = self._shape.shaped(batch)
            self.left_out = self._shape.left_out
            yield shaped
