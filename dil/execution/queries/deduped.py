"""Removes rows of a query that repeat published rows or each other, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    DataType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from dil.errors import QueryError
from dil.execution.frames import mapped_in_arrow
from dil.execution.queries.query import View
from dil.execution.queries.repeats import PLACE, PUBLISHED, TIME, Repeats
from dil.execution.queries.windowed import event_time_of
from dil.model.dedupe import COLUMN, KEYS, DedupeSpec, TimeSpan
from dil.model.windows import quoted

Published = Callable[[TimeSpan], View | None]
ViewFrame = Callable[[View], Any]
_PLACES = StructType([StructField(PLACE, LongType())])


@dataclass(frozen=True, slots=True)
class Deduped:
    """The rows of a query without repeats; ``frame`` is a DataFrame.

    ``span`` is the span of the times of all rows, including repeats; None if no row has a time. The
    rows are computed once and kept until ``release``.
    """

    frame: Any
    span: TimeSpan | None
    release: Callable[[], object]


def without_repeats(
    frame: Any,  # noqa: ANN401 - DataFrames
    spec: DedupeSpec,
    published: Published,
    frame_of: ViewFrame,
) -> Deduped:
    """Return the rows of a DataFrame without repeats.

    ``published`` gives the published rows that may be near the times of a span, and ``frame_of``
    their DataFrame. Rows without a key or a time stay: it is unknown which rows they repeat.
    """
    from pyspark.sql import functions

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
        _refuse_other_kinds(frame, known, spec)
        near = functions.col(TIME).between(least - within, most + within)
        places = functions.lit(PUBLISHED).cast("long")
        judged = _judged(known, spec, places).where(near).unionAll(judged)
    names = [f"k{number}" for number in range(len(spec.keys))]
    ordered = judged.toDF(*names, TIME, PLACE).repartition(*names)
    ordered = ordered.sortWithinPartitions(*names, PLACE)
    repeats = mapped_in_arrow(ordered, _Body(within), _PLACES)
    return Deduped(numbered.join(repeats, PLACE, "left_anti").drop(PLACE), span, release)


def _refuse_other_kinds(new: Any, known: Any, spec: DedupeSpec) -> None:  # noqa: ANN401 - DataFrames
    """Refuse keys that Spark would compare as other values: "007" as the number 7.

    Raises:
        QueryError: a key is a text, or a fraction, in only one of the two frames.
    """
    for name in spec.keys:
        one, other = new.schema[name].dataType, known.schema[name].dataType
        if _kind(one) != _kind(other):
            raise QueryError(
                f"{KEYS} names {name}, which is {one.simpleString()} in the query's result and "
                f"{other.simpleString()} in the published rows: these types cannot be compared",
                f"Let the query give it the published type: CAST({quoted(name)} AS"
                f" {other.simpleString()}). Or give the job another job.name and table.",
            )


def _kind(found: DataType) -> str:
    if isinstance(found, StringType):
        return "text"
    return "fraction" if isinstance(found, FloatType | DoubleType) else "other"


def _judged(frame: Any, spec: DedupeSpec, places: Any) -> Any:  # noqa: ANN401 - DataFrames
    """Return the keys, the times in microseconds and the places of rows that have both."""
    from pyspark.sql import functions

    keys = [functions.col(quoted(name)) for name in spec.keys]
    text = f"unix_micros({event_time_of(frame, spec.column, COLUMN)})"
    found = frame.select(*keys, functions.expr(text).alias(TIME), places.alias(PLACE))
    return found.dropna()


@dataclass(frozen=True, slots=True)
class _Body:
    """Gives the places of repeats; ``within`` is in microseconds."""

    within: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for places in Repeats(self.within).places(batches):
            yield pa.RecordBatch.from_arrays([places], names=[PLACE])
