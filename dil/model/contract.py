"""Settings for rows that change the schema, and for rows that are put aside."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ContractMode(StrEnum):
    """``ms.schema.contract``: what happens to a new column or a value of another type."""

    EVOLVE = "evolve"
    FREEZE = "freeze"
    DISCARD_ROW = "discard_row"
    DISCARD_VALUE = "discard_value"


@dataclass(frozen=True, slots=True)
class QuarantineSpec:
    """Whether rows that are put aside are kept, and how many a work unit may put aside.

    If ``max_rows`` is None, there is no limit.
    """

    enabled: bool = True
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class RejectCount:
    """Rows of one work unit or run that were put aside for one reason."""

    column: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class DiscardCount:
    """Values of one column that were left out while their rows were kept."""

    column: str
    values: int
