"""Selects, orders and names the columns of a result as the job defines.

See docs/formats.md, docs/databases.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.jdbc.columns import distinct
from connectors.jdbc.failures import unfit
from connectors.jdbc.settings import JdbcSettings
from dil.errors import SourceContractError
from dil.extraction.names import NameCleansing

if TYPE_CHECKING:
    import pyarrow as pa

# Days and microseconds that mean infinity in databases; the microseconds of a day.
_BOUNDS = {"date32": 2**31 - 2, "timestamp[us": 2**63 - 2, "time64[us": 86_400_000_000}
_LETTERS = {"toupper": str.upper, "tolower": str.lower}


class ResultShape:
    """Gives batches of one result the job's columns.

    ``origins`` maps the job's names of the last batch's columns to the database's names.
    ``left_out`` are the names of the columns that ms.output.schema drops.
    """

    def __init__(self, settings: JdbcSettings) -> None:
        self.origins: dict[str, str] = {}
        self.left_out: tuple[str, ...] = ()
        self._settings = settings
        self._cleansing = NameCleansing(settings.cleansing) if settings.cleansing else None

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the names and columns of the job.

        Raises:
            SourceContractError: two names become equal, a column of ms.output.schema is missing,
                or a time has digits that no column type holds.
        """
        import pyarrow as pa

        letters = _LETTERS.get(self._settings.letters, str)
        refactored = [letters(name) for name in batch.schema.names]
        if self._cleansing:
            refactored = [self._cleansing.clean(name) for name in refactored]
        names = distinct(refactored)
        self.origins = dict(zip(names, batch.schema.names, strict=True))
        nulls = self._settings.nulls_dates
        columns = [
            _in_calendar(name, _microseconds(name, column), nulls=nulls)
            for name, column in zip(names, batch.columns, strict=True)
        ]
        named = pa.RecordBatch.from_arrays(columns, names=names)
        return named.select(self._wanted(names)) if self._settings.columns else named

    def _wanted(self, names: list[str]) -> list[str]:
        """Return the columns in the order of ms.output.schema, then any others that are kept."""
        wanted = list(self._settings.columns)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise SourceContractError(
                f'the result has no column "{missing[0]}", which ms.output.schema names',
                f"Name its columns: {', '.join(names)}. Upper and lower case differ; see"
                " ms.jdbc.schema.refactor.",
            )
        others = [name for name in names if name not in wanted]
        if not self._settings.drops_others:
            return [*wanted, *others]
        self.left_out = tuple(others)
        return wanted


def _in_calendar(name: str, column: pa.Array, *, nulls: bool) -> pa.Array:
    """Return the column; infinity becomes null or an error, and the time 24:00 is an error."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bound = next(
        (most for kind, most in _BOUNDS.items() if str(column.type).startswith(kind)), None
    )
    if bound is None or column.null_count == len(column):
        return column
    numbers = column.cast(pa.int32() if column.type == pa.date32() else pa.int64())
    is_beyond = pc.or_(pc.greater_equal(numbers, bound), pc.less_equal(numbers, -bound))
    if not pc.any(is_beyond).as_py():
        return column
    if nulls and not pa.types.is_time(column.type):
        return pc.if_else(is_beyond, pa.scalar(None, column.type), column)
    raise unfit(
        name,
        "has infinity, or the time 24:00, which no calendar and no clock has",
        f"Write a case for it in ms.jdbc.statement, or CAST({name} AS VARCHAR) AS {name}; for dates"
        " ms.jdbc.invalid.dates=null makes them null.",
    )


def _microseconds(name: str, column: pa.Array) -> pa.Array:
    """Return times in microseconds; refuse finer times if a digit would be lost."""
    import pyarrow as pa

    data_type = column.type
    if pa.types.is_timestamp(data_type) and data_type.unit == "ns":
        target = pa.timestamp("us", tz=data_type.tz)
    elif pa.types.is_time(data_type) and data_type == pa.time64("ns"):
        target = pa.time64("us")
    else:
        return column
    try:
        return column.cast(target)
    except pa.ArrowInvalid:
        raise unfit(
            name,
            "has times finer than a microsecond",
            f"Write CAST({name} AS VARCHAR) AS {name} in ms.jdbc.statement to keep their digits.",
        ) from None
