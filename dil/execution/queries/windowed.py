"""Windows of event time on Spark: selects the rows for windows, and the windows to emit.

No state is kept between runs. A window is computed once, when it closes, from all rows that the
input has then. The rows are in the input's files, so Spark need not keep them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import DateType, IntegralType, TimestampType

from dil.errors import QueryError
from dil.model.derived import EVENT_TIME_COLUMN, WINDOW_END, Closing, WindowSpec, quoted
from dil.sections.query import WINDOW_COLUMN


def with_event_time(frame: Any, windows: WindowSpec, closing: Closing) -> Any:  # DataFrames
    """Return the rows that may be in emitted windows, with a column for their event time.

    Raises:
        QueryError: the column is missing, or holds no times.
    """
    from pyspark.sql.functions import expr

    found = frame.withColumn(
        EVENT_TIME_COLUMN, expr(event_time_of(frame, windows.column, WINDOW_COLUMN))
    )
    found = found.where(f"{EVENT_TIME_COLUMN} < timestamp_millis({closing.until_ms})")
    if closing.after_ms is None:
        return found
    least = closing.after_ms - windows.size_ms
    return found.where(f"{EVENT_TIME_COLUMN} >= timestamp_millis({least})")


def event_time_of(frame: Any, column: str, key: str) -> str:  # a DataFrame
    """Return the SQL expression of a column as timestamps; the property ``key`` names the column.

    Raises:
        QueryError: the column is missing, or holds no times.
    """
    field = next((each for each in frame.schema.fields if each.name == column), None)
    if field is None:
        raise QueryError(
            f'{key} names "{column}", but there is no such column',
            f"Name one of: {', '.join(frame.columns)}.",
        )
    name = quoted(column)
    if isinstance(field.dataType, TimestampType):
        return name
    if isinstance(field.dataType, DateType):
        return f"CAST({name} AS TIMESTAMP)"
    if isinstance(field.dataType, IntegralType):
        return f"timestamp_millis({name})"
    raise QueryError(
        f"{column} is {field.dataType.simpleString()}, which holds no times",
        f"Let {key} name a column of timestamps, dates, or whole epoch milliseconds.",
    )


def emitted(frame: Any, closing: Closing) -> Any:  # DataFrames
    """Return the windows that the present watermark closes and the earlier watermark did not."""
    found = frame.where(f"{WINDOW_END} <= timestamp_millis({closing.until_ms})")
    if closing.after_ms is None:
        return found
    return found.where(f"{WINDOW_END} > timestamp_millis({closing.after_ms})")
