"""Filters of Spark against the least and the greatest value of a row group."""

from datetime import date

import pytest
from pyspark.sql import datasource as ds

from dil.spark.pruning import pruning_of


def statistics(name: str) -> tuple[object, object, int, int] | None:
    return {
        "id": (10, 20, 0, 5),
        "day": (date(2024, 1, 1), date(2024, 1, 31), 1, 5),
        "ratio": (0.5, 0.9, 0, 5),
    }.get(name)


@pytest.mark.parametrize(
    ("each", "may_match"),
    [
        (ds.EqualTo(("id",), 10), True),
        (ds.EqualTo(("id",), 21), False),
        (ds.GreaterThan(("id",), 20), False),
        (ds.GreaterThanOrEqual(("id",), 20), True),
        (ds.LessThan(("id",), 10), False),
        (ds.LessThanOrEqual(("id",), 10), True),
        (ds.In(("id",), (1, 2)), False),
        (ds.In(("id",), (1, 12)), True),
        (ds.EqualNullSafe(("id",), None), True),
        (ds.IsNull(("id",)), False),
        (ds.IsNull(("day",)), True),
        (ds.IsNotNull(("day",)), True),
        (ds.GreaterThan(("day",), date(2024, 2, 1)), False),
        (ds.GreaterThan(("day",), "2024-02-01"), True),
        (ds.GreaterThan(("ratio",), 5.0), True),  # NaN is above all others, and in no statistics
        (ds.EqualTo(("unknown",), 1), True),
        (ds.EqualTo(("id", "inner"), 1), True),
        (ds.EqualTo(("id.inner",), 1), True),
        (ds.Not(ds.EqualTo(("id",), 10)), True),
    ],
    ids=str,
)
def test_a_row_group_is_left_out_only_where_no_row_of_it_can_match(
    each: ds.Filter, may_match: bool
) -> None:
    assert pruning_of([each])(statistics) is may_match
    assert pruning_of([each, ds.EqualTo(("id",), 99)])(statistics) is False
