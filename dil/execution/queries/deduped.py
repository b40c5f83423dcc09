"""Removes rows of a query that repeat published rows or each other, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType, TimestampNTZType, TimestampType

from dil.execution.frames import mapped_in_arrow
from dil.execution.queries.query import View
from dil.execution.queries.repeats import PLACE, PUBLISHED, TIME, Repeats, refuse_other_kinds
from dil.execution.queries.windowed import event_time_of
from dil.execution.spark_types import arrow_schema
from dil.model.derived import DEDUPE_COLUMN, DedupeSpec, TimeSpan, quoted

Published = Callable[[TimeSpan], View | None]
ViewFrame = Callable[[View], Any]
_PLACES = StructType([StructField(PLACE, LongType())])


@dataclass(frozen=True, slots=True)
class Deduped:
    """The rows of a query without repeats; ``frame`` is a DataFrame.

    ``span`` is the span of the times of all rows, including repeats; None if no row has a time. The
    rows are computed once and kept until ``release`` is called.
    """

    frame: Any
    span: TimeSpan | None
    release: Callable[[], object]


def without_repeats(
    frame: Any,  # DataFrames
    spec: DedupeSpec,
    time_unit_us: int,
    published: Published,
    frame_of: ViewFrame,
) -> Deduped:
    """Return the rows of a DataFrame without repeats.

    ``published`` returns the view of published rows that may be near the times of a span;
    ``frame_of`` makes a DataFrame of the view. Times are compared in whole units of
    ``time_unit_us`` microseconds, because the files of published rows keep no more. Rows without a
    key or a time stay: it is unknown which rows they repeat.

    Raises:
        QueryError: a key cannot be compared with the key of published rows.
    """
    from pyspark.sql import functions

    numbered = frame.withColumn(PLACE, functions.monotonically_increasing_id()).persist()
    judged = _judged(numbered, spec, time_unit_us, functions.col(PLACE))
    least, most = judged.agg(functions.min(TIME), functions.max(TIME)).first()
    release = numbered.unpersist
    if least is None:
        return Deduped(numbered.drop(PLACE), None, release)
    within = spec.within_ms * 1000
    span = TimeSpan.of_micros(least, most)
    # The job may have published other formats, whose files keep fractions of a unit.
    before = published(TimeSpan.of_micros(least, most + time_unit_us - 1))
    if before is not None:
        known = frame_of(before)
        refuse_other_kinds(arrow_schema(frame.schema), arrow_schema(known.schema), spec)
        near = functions.col(TIME).between(least - within, most + within)
        places = functions.lit(PUBLISHED).cast("long")
        judged = _judged(known, spec, time_unit_us, places).where(near).unionAll(judged)
    names = [f"k{number}" for number in range(len(spec.keys))]
    ordered = judged.toDF(*names, TIME, PLACE).repartition(*names)
    ordered = ordered.sortWithinPartitions(*names, PLACE)
    repeats = mapped_in_arrow(ordered, _Body(within), _PLACES)
    return Deduped(numbered.join(repeats, PLACE, "left_anti").drop(PLACE), span, release)


def _judged(frame: Any, spec: DedupeSpec, unit_us: int, places: Any) -> Any:  # DataFrames
    """Return the keys, the times in microseconds and the places of rows that have both."""
    from pyspark.sql import functions

    keys = [functions.expr(_key(frame, name, unit_us)).alias(name) for name in spec.keys]
    time = _whole(event_time_of(frame, spec.column, DEDUPE_COLUMN), unit_us)
    found = frame.select(*keys, functions.expr(time).alias(TIME), places.alias(PLACE))
    # Spark's dropna would take away keys that are NaN, too.
    return found.where(" AND ".join(f"{quoted(name)} IS NOT NULL" for name in found.columns))


def _key(frame: Any, name: str, unit_us: int) -> str:  # a DataFrame
    """Return the SQL expression of a key; times are whole units."""
    kind = frame.schema[name].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        return quoted(name)
    # Sessions are in UTC, so a time without a zone stays the same time as a timestamp.
    micros = _whole(f"CAST({quoted(name)} AS TIMESTAMP)", unit_us)
    return f"CAST(timestamp_micros({micros}) AS {kind.simpleString()})"


def _whole(timestamp: str, unit_us: int) -> str:
    """Return the SQL expression of a timestamp as microseconds, rounded down to a whole unit."""
    micros = f"unix_micros({timestamp})"
    return f"{micros} - pmod({micros}, {unit_us})"


@dataclass(frozen=True, slots=True)
class _Body:
    """Gives the places of repeats; ``within`` is in microseconds."""

    within: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for places in Repeats(self.within).places(batches):
            yield pa.RecordBatch.from_arrays([places], names=[PLACE])
