"""``ms.window.*``: windows of event time over a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.model.json import JsonValue
from dil.model.section import Duration, Section, Text, Texts, ValueType, Written, prop
from dil.sections.reading import Finding, ReadContext, ShapeError, as_object

SIZE, SLIDE, KEYS = "ms.window.size", "ms.window.slide", "ms.window.keys"
AGGS, COLUMN = "ms.window.aggs", "ms.window.column"


def _aggs(value: JsonValue, _around: ReadContext) -> Mapping[str, str]:
    found: dict[str, str] = {}
    wrong: list[Finding] = []
    for name, text in as_object(value).items():
        if isinstance(text, str) and text.strip():
            found[name] = text.strip()
        else:
            fix = f'Write an aggregate in Spark SQL: {{"{name}": "sum(amount)"}}.'
            wrong.append((f'has no aggregate for "{name}"', fix))
    if wrong:
        raise ShapeError(*wrong)
    return found


_Aggs = Annotated[
    Mapping[str, str],
    Written(
        ValueType.JSON_OBJECT,
        read=_aggs,
        members=(("(a column's name)", "text", "Aggregate in Spark SQL."),),
    ),
]


@dataclass(frozen=True, slots=True)
class WindowSection(Section):
    """Windows of event time over the input of a derived dataset."""

    column: Text = prop(
        COLUMN,
        "Column of the input with the time at which a row happened: a timestamp, a date, or whole "
        "epoch milliseconds.",
        default="",
        example="seen_at",
    )
    size_ms: Annotated[Duration, Ge(1)] | None = prop(
        SIZE,
        "Length of a window, an ISO duration. Windows begin at multiples of the slide since "
        "1970-01-01T00:00:00Z.",
        default=None,
        example="PT1H",
    )
    slide_ms: Annotated[Duration, Ge(1)] | None = prop(
        SLIDE,
        "Time between the starts of two windows; if it is shorter than the size, windows overlap. "
        "Unset: the size.",
        default=None,
        example="PT15M",
    )
    keys: Texts = prop(
        KEYS,
        "Columns by which the rows of a window are grouped.",
        default=(),
        example="site,sensor",
    )
    aggs: _Aggs = prop(
        AGGS,
        "Columns to compute for each window and key: their names, each with an aggregate in Spark "
        "SQL.",
        default_factory=dict,
        shown="{}",
        example='{"total": "sum(amount)", "rows": "count(*)"}',
    )
