"""The columns of a result as the job wants them: their names, their order, which of them.

Source: behaviour.md B9.5, B9.6, B13.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.jdbc.engine import distinct
from connectors.jdbc.failures import unfit
from connectors.jdbc.settings import JdbcSettings
from dil.errors import SourceContractError
from dil.extraction.names import NameCleansing

if TYPE_CHECKING:
    import pyarrow as pa

_LETTERS = {"toupper": str.upper, "tolower": str.lower}


class ResultShape:
    """Brings batches of one result to the job's columns."""

    def __init__(self, settings: JdbcSettings) -> None:
        self._settings = settings
        self._cleansing = NameCleansing(settings.cleansing) if settings.cleansing else None

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the job's names and columns.

        Raises:
            SourceContractError: two names become equal, a column of ms.output.schema is missing,
                or a time has digits that no column keeps.
        """
        import pyarrow as pa

        names = distinct([self._name(name) for name in batch.schema.names])
        columns = [
            _microseconds(name, column) for name, column in zip(names, batch.columns, strict=True)
        ]
        named = pa.RecordBatch.from_arrays(columns, names=names)
        return named.select(self._wanted(names)) if self._settings.columns else named

    def _name(self, name: str) -> str:
        refactored = _LETTERS.get(self._settings.letters, str)(name)
        return self._cleansing.clean(refactored) if self._cleansing else refactored

    def _wanted(self, names: list[str]) -> list[str]:
        """Return the columns of ms.output.schema in its order, then the others if they stay."""
        wanted = list(self._settings.columns)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise SourceContractError(
                f'the result has no column "{missing[0]}", which ms.output.schema names',
                f"Its columns are {', '.join(names)}. Letters count; see ms.jdbc.schema.refactor.",
            )
        others = [name for name in names if name not in wanted]
        return wanted if self._settings.drops_others else [*wanted, *others]


def _microseconds(name: str, column: pa.Array) -> pa.Array:
    """Return times in microseconds; finer ones are an error where a digit would be lost."""
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
