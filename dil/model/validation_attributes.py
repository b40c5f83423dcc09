"""``ms.validation.attributes`` as a frozen model (docs/rows.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.model.members import AnyCase, Number, Setting, member


@dataclass(frozen=True, slots=True)
class ValidationAttributes(Setting):
    """The rule of in-flow validation; ``threshold`` is in percent of the expected count."""

    threshold: Annotated[Number, Ge(0)] = member(
        "Percent of the expected rows. The `validation` entries of `ms.secondary.input` give the "
        "expected rows; without such an entry one row is expected.",
        default=0,
    )
    criteria: Annotated[Literal["fail", "success"], AnyCase()] = member(
        "Whether the counted rows are failures, which have to stay below the threshold, or "
        "successes, which have to reach it.",
        default="fail",
    )
    error_column: str | None = member(
        "Only rows, or items of the only column, with a value in this column (path) count; null "
        "and blank text are no values. If left out, all rows count.",
        name="errorColumn",
        default=None,
    )
