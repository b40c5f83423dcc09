"""``ms.dedupe.*``: rows of a derived dataset that repeat other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.model.dedupe import COLUMN, KEYS, WITHIN
from dil.model.section import Duration, Section, Text, Texts, prop


@dataclass(frozen=True, slots=True)
class DedupeSection(Section):
    """The rule by which a query's rows are left out because they repeat published rows."""

    keys: Texts = prop(
        KEYS,
        "Columns of the query's result. If rows are equal in all these columns and their times are "
        "at most `ms.dedupe.within` apart, only the first of them is published.",
        default=(),
        example="sensor,reading_id",
    )
    column: Text = prop(
        COLUMN,
        "Column of the query's result with the time at which a row happened: a timestamp, a date, "
        "or whole epoch milliseconds.",
        default="",
        example="seen_at",
    )
    within_ms: Annotated[Duration, Ge(0)] | None = prop(
        WITHIN,
        "Most time between a row and its repeat, an ISO duration.",
        default=None,
        example="PT1H",
    )
