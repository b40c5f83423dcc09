"""``ms.csv`` and the other settings of delimited text, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from msgspec import Struct, field

from dil.model.members import AnyCase, Flag, Setting, Whole, member

CsvFieldType = Literal["", "string", "int", "long", "double", "boolean", "float"]


@dataclass(frozen=True, slots=True)
class CsvSettings(Setting):
    """``ms.csv`` (docs/formats.md); the three characters are decoded, empty for none."""

    field_separator: str = member(
        "Character between cells, or its code: `u0009` is a tab.",
        name="fieldSeparator",
        default=",",
    )
    quote_character: str = member(
        "Character around a cell that may hold separators and line breaks, or its code. Inside "
        "such a cell the character is written twice. Blank or `u0000`: none.",
        name="quoteCharacter",
        default='"',
    )
    escape_character: str = member(
        "Character that makes a following quote or escape character literal, or its code; before "
        "any other character it is dropped. Blank or `u0000`: none.",
        name="escapeCharacter",
        default="\\",
    )
    record_separator: str = member(
        "Accepted, no effect: CR, LF and CRLF end a record.", name="recordSeparator", default=""
    )
    column_header_index: Annotated[Whole, Ge(-1)] = member(
        "Line with the names of the columns, counted from 0; -1 is none.",
        name="columnHeaderIndex",
        default=-1,
    )
    lines_to_skip: Annotated[Whole, Ge(0)] = member(
        "Number of lines to skip at the top of every response, including the header. If left out: "
        "all lines up to the header.",
        name="linesToSkip",
        default=0,
    )
    column_projection: str = member(
        "Cells to take, counted from 0, such as `0,2-4`: one cell for each column of "
        "`ms.output.schema` that is no derived field.",
        name="columnProjection",
        default="",
    )
    default_field_type: Annotated[CsvFieldType, AnyCase()] = member(
        "Type of all cells if there is no `ms.output.schema`, in place of inferred types.",
        name="defaultFieldType",
        default="",
    )
    max_failures: Annotated[Whole, Ge(0)] = member(
        "Most rows of a work unit that may be dropped because a cell does not fit its type.",
        name="maxFailures",
        default=0,
    )
    keep_null_string: Flag = member(
        "Whether the text `null` stays a text. If not, it becomes null, like an empty cell.",
        name="keepNullString",
        default=False,
    )

    @property
    def skipped(self) -> int:
        """Return the number of records to skip at the top of each response."""
        return max(self.lines_to_skip, self.column_header_index + 1)

    @property
    def projected(self) -> tuple[int, ...]:
        """Return the positions of the cells to take; empty without a projection."""
        found: list[int] = []
        for part in self.column_projection.split(",") if self.column_projection else ():
            first, _, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
        return tuple(found)


class CsvSpec(Struct, frozen=True):
    """How delimited text becomes rows.

    ``made_up`` are the names of columns that derived fields fill, in lower case: no cell is
    meant for them. ``order`` is ``converter.csv_to_json.custom_order`` (docs/formats.md).
    """

    settings: CsvSettings = field(default_factory=CsvSettings)
    made_up: frozenset[str] = frozenset()
    order: tuple[int, ...] = ()
