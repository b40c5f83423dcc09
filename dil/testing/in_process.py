"""An executor without Spark: runs the same task code in this process, one work unit at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from dil.errors import QueryError
from dil.execution.coordinated import BindAddress, coordinated
from dil.execution.executor import Execution, Watch
from dil.execution.queries.query import Query, QueryResult, View, in_order, part_of
from dil.execution.queries.repeats import (
    PLACE,
    PUBLISHED,
    TIME,
    Repeats,
    refuse_other_kinds,
    require_columns,
)
from dil.model.derived import DEDUPE_COLUMN, DedupeSpec, TimeSpan
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.task.context import Clocks
from dil.task.work_unit import run_attempt_over, run_work_unit

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")
R = TypeVar("R")


class InProcessExecutor:
    """Runs queries, and runs work units one by one, without Spark's parallelism and failures.

    It is for tests of connectors, publishing and recovery that need no JVM.
    """

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run all work units, or stop when ``watch`` asks for it or the quota is spent."""
        reports: list[TaskReport] = []
        with coordinated(run, BindAddress()) as shared:
            for unit in units:
                reports.append(run_work_unit(shared.run, unit, self._clocks))
                stopped = watch(tuple(reports)) or shared.spent()
                if stopped is not None and len(reports) < len(units):
                    return Execution(tuple(reports), stopped)
        return Execution(tuple(reports))

    def query(self, run: RunContext, query: Query, watch: Watch) -> QueryResult:
        """Run a query in DuckDB in place of Spark; query functions get and return Arrow tables."""
        import duckdb

        tables = {view.name: _table(view) for view in query.views}
        spec = query.spec
        if spec.function is not None:
            found = getattr(import_module(spec.function.module), spec.function.qualname)(tables)
        else:
            with duckdb.connect() as connection:
                for name, table in tables.items():
                    connection.register(name, table)
                found = connection.sql(spec.text).to_arrow_table()
        del watch
        span = None
        if spec.dedupe is not None:
            unit_us = run.job.writing.time_unit_us
            found, span = _without_repeats(found, spec.dedupe, unit_us, query.published)
        rows = (batch for batch in found.to_batches() if batch.num_rows)
        report = run_attempt_over(rows, run, part_of(query.unit, 0), 1)
        return replace(in_order(query.unit, {0: report}), span=span)

    def differing(self, one: View, other: View) -> int:
        """Return how many rows of view ``one`` are missing in view ``other``."""
        lacking = Counter(map(repr, _table(one).to_pylist()))
        return (lacking - Counter(map(repr, _table(other).to_pylist()))).total()

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call the function for one item after the other."""
        return [function(item) for item in items]


def _table(view: View) -> pa.Table:
    import pyarrow as pa

    rows = (batch for task in range(len(view.tasks)) for batch in view.rows(task, view.wanted))
    return pa.Table.from_batches(rows, view.wanted)


def _without_repeats(
    rows: pa.Table,
    spec: DedupeSpec,
    unit_us: int,
    published: Callable[[TimeSpan], View | None],
) -> tuple[pa.Table, TimeSpan | None]:
    """Do as ``dil.execution.queries.deduped``, without Spark.

    Raises:
        QueryError: a column cannot be compared, or holds no times.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    require_columns(rows.schema, spec)
    numbered = rows.append_column(PLACE, pa.array(range(rows.num_rows), pa.int64()))
    judged = _judged(numbered, spec, unit_us, numbered[PLACE])
    if not judged.num_rows:
        return rows, None
    ends = pc.min_max(judged[TIME]).as_py()
    span = TimeSpan.of_micros(ends["min"], ends["max"])
    before = published(TimeSpan.of_micros(ends["min"], ends["max"] + unit_us - 1))
    if before is not None:
        known = _table(before)
        refuse_other_kinds(rows.schema, known.schema, spec)
        places = pa.repeat(pa.scalar(PUBLISHED, pa.int64()), known.num_rows)
        judged = pa.concat_tables(
            [_judged(known, spec, unit_us, places), judged], promote_options="permissive"
        )
    ordered = judged.sort_by([(name, "ascending") for name in (*spec.keys, PLACE)])
    found = Repeats(spec.within_ms * 1000).places(iter(ordered.to_batches()))
    repeats = pa.chunked_array([*found], pa.int64())
    kept = numbered.filter(pc.invert(pc.is_in(numbered[PLACE], value_set=repeats)))
    return kept.drop_columns([PLACE]), span


def _judged(
    rows: pa.Table, spec: DedupeSpec, unit_us: int, places: pa.Array | pa.ChunkedArray
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    def whole(times: pa.ChunkedArray) -> pa.ChunkedArray:
        if not pa.types.is_timestamp(times.type):
            return times
        return pc.floor_temporal(times, unit_us, "microsecond")

    columns = [*(whole(rows[name]) for name in spec.keys), _micros(whole(rows[spec.column]))]
    return pa.table([*columns, places], names=[*spec.keys, TIME, PLACE]).drop_null()


def _micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as whole microseconds since 1970 in UTC: timestamps, dates, or epoch ms.

    Raises:
        QueryError: the values are no times.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = times.type
    if pa.types.is_timestamp(kind):
        return times.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_date(kind):
        return times.cast(pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_integer(kind):
        return pc.multiply_checked(times.cast(pa.int64()), 1000)
    raise QueryError(
        f"{DEDUPE_COLUMN} names {kind}, which holds no times",
        f"{DEDUPE_COLUMN} is a timestamp, a date, or whole epoch milliseconds.",
    )
