"""The source of a job that reads datasets: Spark runs the job's query and passes the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dil.errors import ConfigError, ExecutionError
from dil.spi.connector import Connector, RequestValues, RowSession, SessionContext

if TYPE_CHECKING:
    import pyarrow as pa


class GivenRows(Connector):
    """A connector whose rows are in the context, so that it needs no source."""

    reads_window = False

    def open(self, context: SessionContext) -> RowSession:
        """Return a session over the rows of the context."""
        return _Rows(context.rows)


class _Rows(RowSession):
    """Yields the rows that it was given, as one page."""

    def __init__(self, rows: Iterator[pa.RecordBatch] | None) -> None:
        if rows is None:
            raise ConfigError.single(
                "ms.query.inputs",
                "names datasets, and only a run reads datasets",
                "Use `dil run` to run the query; `dil plan` shows the rows that it would read."
                ' In Spark, .option("dataset", <this job file>) reads the published rows.',
            )
        self._rows = rows

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            ExecutionError: the rows broke off; the Spark job that runs the query reports the cause.
        """
        import pyarrow as pa

        del values
        try:
            yield from self._rows
        except pa.ArrowInvalid as error:
            raise ExecutionError(f"the rows broke off: {error}") from error
