"""``ms.validation.attributes`` as a frozen model (docs/rows.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.model.members import AnyCase, Number, Setting, member


@dataclass(frozen=True, slots=True)
class ValidationAttributes(Setting):
    """When in-flow validation passes; ``threshold`` is in percent of the expected count."""

    threshold: Annotated[Number, Ge(0)] = member(
        "Percent of the expected rows, those of the `validation` entries of "
        "`ms.secondary.input`; without such an entry one row is expected.",
        default=0,
    )
    criteria: Annotated[Literal["fail", "success"], AnyCase()] = member(
        "Whether the rows that count are failures, and have to be less than the threshold, or"
        " successes, and have to reach it.",
        default="fail",
    )
    error_column: str | None = member(
        "Only rows, or items of the only column, with a value in this column (path) count; neither "
        "null nor blank text is one. Left out, all count.",
        name="errorColumn",
        default=None,
    )
