"""Which row groups of published files are read for repeats, by the types of their times."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from dil.execution.queries.repeats import NearSpan
from dil.model.dedupe import Span

NOON = 1_704_110_400_000  # 2024-01-01T12:00:00Z
HOUR = 3_600_000


def is_read(least: object, most: object, span: Span) -> bool:
    return NearSpan("at", span)(lambda name: (least, most, 0, 1) if name == "at" else None)


@pytest.mark.parametrize(
    ("least", "most"),
    [
        (NOON, NOON + HOUR),
        (  # Parquet has times without a zone, too
            datetime(2024, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None),
            datetime(2024, 1, 1, 13, tzinfo=UTC).replace(tzinfo=None),
        ),
        (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 13, tzinfo=UTC)),
        (
            datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 1, 1, 15, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_a_group_is_read_where_its_times_touch_the_span(least: object, most: object) -> None:
    assert is_read(least, most, Span(NOON - HOUR, NOON))
    assert is_read(least, most, Span(NOON + HOUR, NOON + 2 * HOUR))
    assert is_read(least, most, Span(NOON + 1, NOON + 2))
    assert not is_read(least, most, Span(NOON - HOUR, NOON - 1))
    assert not is_read(least, most, Span(NOON + HOUR + 1, NOON + 2 * HOUR))


def test_dates_are_their_midnight_and_what_is_not_known_is_read() -> None:
    day = date(2024, 1, 1)
    assert is_read(day, day, Span(NOON - 12 * HOUR, NOON))
    assert not is_read(day, day, Span(NOON, NOON + HOUR))
    assert is_read("a", "b", Span(NOON, NOON))
    assert NearSpan("at", Span(NOON, NOON))(lambda _name: None)
