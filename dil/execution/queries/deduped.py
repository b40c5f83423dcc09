"""Removes rows of a query that repeat published rows or each other, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from dil.execution.frames import mapped_in_arrow
from dil.execution.queries.query import View
from dil.execution.queries.repeats import PLACE, PUBLISHED, TIME, Repeats, refuse_other_kinds
from dil.execution.queries.windowed import event_time_of
from dil.execution.spark_types import arrow_schema
from dil.model.dedupe import COLUMN, DedupeSpec, TimeSpan
from dil.model.windows import quoted

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
    ``frame_of`` makes a DataFrame of the view. Published times are whole units of ``time_unit_us``
    microseconds, so new rows are rounded before they are compared. Rows without a key or a time
    stay: it is unknown which rows they repeat.

    Raises:
        QueryError: a key cannot be compared with the key of published rows.
    """
    from pyspark.sql import functions

    frame = _in_units(frame, spec, time_unit_us)
    numbered = frame.withColumn(PLACE, functions.monotonically_increasing_id()).persist()
    judged = _judged(numbered, spec, functions.col(PLACE))
    least, most = judged.agg(functions.min(TIME), functions.max(TIME)).first()
    release = numbered.unpersist
    if least is None:
        return Deduped(numbered.drop(PLACE), None, release)
    within = spec.within_ms * 1000
    span = TimeSpan.of_micros(least, most)
    before = published(span)
    if before is not None:
        known = frame_of(before)
        refuse_other_kinds(arrow_schema(frame.schema), arrow_schema(known.schema), spec)
        near = functions.col(TIME).between(least - within, most + within)
        places = functions.lit(PUBLISHED).cast("long")
        judged = _judged(known, spec, places).where(near).unionAll(judged)
    names = [f"k{number}" for number in range(len(spec.keys))]
    ordered = judged.toDF(*names, TIME, PLACE).repartition(*names)
    ordered = ordered.sortWithinPartitions(*names, PLACE)
    repeats = mapped_in_arrow(ordered, _Body(within), _PLACES)
    return Deduped(numbered.join(repeats, PLACE, "left_anti").drop(PLACE), span, release)


def _in_units(frame: Any, spec: DedupeSpec, unit_us: int) -> Any:  # DataFrames
    """Return the rows with the times in the columns of ``spec`` as files will keep them."""
    from pyspark.sql import functions

    times = {each.name for each in frame.schema.fields if isinstance(each.dataType, TimestampType)}
    for name in times.intersection(spec.columns) if unit_us > 1 else ():
        micros = f"unix_micros({quoted(name)})"
        rounded = functions.expr(f"timestamp_micros({micros} - pmod({micros}, {unit_us}))")
        frame = frame.withColumn(name, rounded)
    return frame


def _judged(frame: Any, spec: DedupeSpec, places: Any) -> Any:  # DataFrames
    """Return the keys, the times in microseconds and the places of rows that have both."""
    from pyspark.sql import functions

    keys = [functions.col(quoted(name)) for name in spec.keys]
    text = f"unix_micros({event_time_of(frame, spec.column, COLUMN)})"
    found = frame.select(*keys, functions.expr(text).alias(TIME), places.alias(PLACE))
    # Spark's dropna would take away keys that are NaN, too.
    return found.where(" AND ".join(f"{quoted(name)} IS NOT NULL" for name in found.columns))


@dataclass(frozen=True, slots=True)
class _Body:
    """Gives the places of repeats; ``within`` is in microseconds."""

    within: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for places in Repeats(self.within).places(batches):
            yield pa.RecordBatch.from_arrays([places], names=[PLACE])
