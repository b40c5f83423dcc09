"""The last row of a page of a database: its columns lead to the next page (keyset paging)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from dil.errors import SourceContractError
from dil.model.json import JsonValue
from dil.spi.extractor import MISSING, Missing

if TYPE_CHECKING:
    import pyarrow as pa


class LastRow:
    """Keeps the newest row of a page and answers look-ups from its columns."""

    def __init__(self) -> None:
        self._row: pa.RecordBatch | None = None

    def see(self, batch: pa.RecordBatch) -> None:
        """Take the last row of a batch; a batch without rows changes nothing."""
        if batch.num_rows:
            self._row = batch.slice(batch.num_rows - 1)

    def lookup(self, name: str) -> JsonValue | Missing:
        """Return a column's value; times as text in ISO 8601, with all digits.

        Of several columns, their names parted by commas, it is an array of their values.

        Raises:
            SourceContractError: the column holds bytes, a list or a structure.
        """
        import pyarrow as pa

        if self._row is None:
            return MISSING
        if name not in self._row.schema.names:
            return self._several(name) if "," in name else MISSING
        column = self._row.column(name)
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        value = column[0].as_py()
        if value is not None and not isinstance(value, bool | int | float | str | Decimal):
            raise SourceContractError(
                f'the column "{name}" is of type {column.type}: it cannot lead to the next page',
                "Name a column of numbers, text or times in ms.session.key.field.",
            )
        return value

    def _several(self, names: str) -> JsonValue | Missing:
        values: list[JsonValue] = []
        for name in names.split(","):
            value = self.lookup(name.strip())
            if isinstance(value, Missing):
                return MISSING
            values.append(value)
        return values
