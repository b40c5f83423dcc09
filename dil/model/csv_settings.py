"""``ms.csv`` as a frozen value, and what else decides how cells become columns."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from dil.model.settings import Setting

CsvFieldType = Literal["", "string", "int", "long", "double", "boolean", "float"]


class CsvSettings(Setting, frozen=True):
    """``ms.csv`` (behaviour.md B9.7); the three characters are decoded, empty text means none."""

    field_separator: str = field(default=",", name="fieldSeparator")
    quote_character: str = field(default='"', name="quoteCharacter")
    escape_character: str = field(default="\\", name="escapeCharacter")
    record_separator: str = field(default="", name="recordSeparator")
    column_header_index: Annotated[int, Meta(ge=-1)] = field(default=-1, name="columnHeaderIndex")
    lines_to_skip: Annotated[int, Meta(ge=0)] = field(default=0, name="linesToSkip")
    column_projection: str = field(default="", name="columnProjection")
    default_field_type: CsvFieldType = field(default="", name="defaultFieldType")
    max_failures: Annotated[int, Meta(ge=0)] = field(default=0, name="maxFailures")
    keep_null_string: bool = field(default=False, name="keepNullString")

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


class CsvSpec(Struct, frozen=True):
    """How delimited text becomes rows.

    ``made_up`` are the names of columns that derived fields fill, in lower case: no cell is
    meant for them. ``order`` is ``converter.csv_to_json.custom_order`` (behaviour.md B11.2).
    """

    settings: CsvSettings = field(default_factory=CsvSettings)
    made_up: frozenset[str] = frozenset()
    order: tuple[int, ...] = ()
