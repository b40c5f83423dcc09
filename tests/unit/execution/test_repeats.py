"""Which rows are repeats, and which row groups of published files are read to find them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from dil.execution.queries.repeats import NearSpan, Repeats
from dil.model.derived import TimeSpan

NOON = 1_704_110_400_000  # 2024-01-01T12:00:00Z
HOUR = 3_600_000


def is_read(least: object, most: object, span: TimeSpan) -> bool:
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
    assert is_read(least, most, TimeSpan(NOON - HOUR, NOON))
    assert is_read(least, most, TimeSpan(NOON + HOUR, NOON + 2 * HOUR))
    assert is_read(least, most, TimeSpan(NOON + 1, NOON + 2))
    assert not is_read(least, most, TimeSpan(NOON - HOUR, NOON - 1))
    assert not is_read(least, most, TimeSpan(NOON + HOUR + 1, NOON + 2 * HOUR))


def test_dates_are_their_midnight_and_what_is_not_known_is_read() -> None:
    day = date(2024, 1, 1)
    assert is_read(day, day, TimeSpan(NOON - 12 * HOUR, NOON))
    assert not is_read(day, day, TimeSpan(NOON, NOON + HOUR))
    assert is_read("a", "b", TimeSpan(NOON, NOON))
    assert NearSpan("at", TimeSpan(NOON, NOON))(lambda _name: None)


@pytest.mark.parametrize("size", [1, 2, 6])
def test_keys_that_are_not_a_number_are_one_key(size: int) -> None:
    nan = float("nan")
    rows = pa.table(
        {"key": [1.0, 1.0, 2.0, nan, nan, nan], "time": [0, 1, 1, 0, 9, 1], "place": range(6)}
    )
    found = Repeats(1).places(iter(rows.to_batches(max_chunksize=size)))
    assert [place for places in found for place in places.to_pylist()] == [1, 5]
