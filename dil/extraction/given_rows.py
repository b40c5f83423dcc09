"""The source of a job that reads datasets: rows that Spark makes by its query, and gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dil.errors import ConfigError, ExecutionError
from dil.spi.connector import Connector, RequestValues, RowSession, SessionContext

if TYPE_CHECKING:
    import pyarrow as pa


class GivenRows(Connector):
    """Takes the place of a connector; it asks no source."""

    reads_window = False

    def open(self, context: SessionContext) -> RowSession:
        """Return a session over the rows of the context."""
        return _Rows(context.rows)


class _Rows(RowSession):
    """Hands on rows, on one page."""

    def __init__(self, rows: Iterator[pa.RecordBatch] | None) -> None:
        if rows is None:
            raise ConfigError.single(
                "ms.query.inputs",
                "names datasets, which only a run reads",
                "`dil run` runs the query; `dil plan` shows what it would take. What it published"
                ' is read from Spark by .option("dataset", "orders.conf").',
            )
        self._rows = rows

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            ExecutionError: they broke off; Spark knows why, and says it where it was asked.
        """
        import pyarrow as pa

        del values
        try:
            yield from self._rows
        except pa.ArrowInvalid as error:
            raise ExecutionError(f"the rows broke off: {error}") from error
