"""``ms.csv`` as a frozen value, and what else decides how cells become columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dil.model.settings import Setting, lower

CsvFieldType = Annotated[
    Literal["", "string", "int", "long", "double", "boolean", "float"], BeforeValidator(lower)
]


class CsvSettings(Setting):
    """``ms.csv`` (behaviour.md B9.7); the three characters are decoded, empty text means none."""

    field_separator: str = Field(default=",", alias="fieldSeparator")
    quote_character: str = Field(default='"', alias="quoteCharacter")
    escape_character: str = Field(default="\\", alias="escapeCharacter")
    record_separator: str = Field(default="", alias="recordSeparator")
    column_header_index: int = Field(default=-1, ge=-1, alias="columnHeaderIndex")
    lines_to_skip: int = Field(default=0, ge=0, alias="linesToSkip")
    column_projection: str = Field(default="", alias="columnProjection")
    default_field_type: CsvFieldType = Field(default="", alias="defaultFieldType")
    max_failures: int = Field(default=0, ge=0, alias="maxFailures")
    keep_null_string: bool = Field(default=False, alias="keepNullString")

    @property
    def skipped(self) -> int:
        """Return how many records at the top of each response are no rows."""
        return max(self.lines_to_skip, self.column_header_index + 1)

    @property
    def projected(self) -> tuple[int, ...]:
        """Return the positions of the cells to take, empty without a projection."""
        found: list[int] = []
        for part in self.column_projection.split(",") if self.column_projection else ():
            first, _, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class CsvSpec:
    """How delimited text becomes rows.

    ``made_up`` are the names of columns that derived fields fill, in lower case: no cell is
    meant for them. ``order`` is ``converter.csv_to_json.custom_order`` (behaviour.md B11.2).
    """

    settings: CsvSettings = field(default_factory=CsvSettings)
    made_up: frozenset[str] = frozenset()
    order: tuple[int, ...] = ()
