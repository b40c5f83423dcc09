"""Windows of event time on Spark: the rows that they are over, and which of them are emitted.

No state is kept between runs. A window is computed once, when it is closed, from all rows that the
input has then: they are in its files, and what Spark would keep of them is not needed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import DateType, IntegralType, TimestampType

from dil.errors import QueryError
from dil.model.windows import END, EVENT_TIME, Closing, WindowSpec, quoted
from dil.sections.windows import COLUMN


def with_event_time(frame: Any, windows: WindowSpec, closing: Closing) -> Any:  # noqa: ANN401 - DataFrames
    """Return the rows that may be in windows which are emitted, with their event time.

    Raises:
        QueryError: there is no such column, or it holds no times.
    """
    from pyspark.sql.functions import expr

    field = next((each for each in frame.schema.fields if each.name == windows.column), None)
    if field is None:
        raise QueryError(
            f"the input has no column {windows.column}",
            f"{COLUMN} names one of: {', '.join(frame.columns)}.",
        )
    name = quoted(windows.column)
    if isinstance(field.dataType, TimestampType):
        text = name
    elif isinstance(field.dataType, DateType):
        text = f"CAST({name} AS TIMESTAMP)"
    elif isinstance(field.dataType, IntegralType):
        text = f"timestamp_millis({name})"
    else:
        raise QueryError(
            f"{windows.column} is {field.dataType.simpleString()}, and holds no times",
            f"{COLUMN} is a timestamp, a date, or whole epoch milliseconds.",
        )
    found = frame.withColumn(EVENT_TIME, expr(text))
    found = found.where(f"{EVENT_TIME} < timestamp_millis({closing.until_ms})")
    if closing.after_ms is None:
        return found
    least = closing.after_ms - windows.size_ms
    return found.where(f"{EVENT_TIME} >= timestamp_millis({least})")


def emitted(frame: Any, closing: Closing) -> Any:  # noqa: ANN401 - DataFrames
    """Return the windows that are closed now, and were not before."""
    found = frame.where(f"{END} <= timestamp_millis({closing.until_ms})")
    if closing.after_ms is None:
        return found
    return found.where(f"{END} > timestamp_millis({closing.after_ms})")
