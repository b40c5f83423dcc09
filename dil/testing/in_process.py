"""An executor without Spark: the same task body, one work unit after the other, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from dil.execution.coordinated import BindAddress, coordinated
from dil.execution.executor import Execution, Watch
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.task.context import Clocks
from dil.task.work_unit import run_attempt_over, run_work_unit

if TYPE_CHECKING:
    import pyarrow as pa

    from dil.execution.queries.query import Query, QueryResult, View

T = TypeVar("T")
R = TypeVar("R")


class InProcessExecutor:
    """Runs work units in order, and queries; what it lacks is parallelism and Spark's own failures.

    For tests of connectors, publishing and recovery that need no JVM.
    """

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run until the end, or until ``watch`` or a spent quota says stop."""
        reports: list[TaskReport] = []
        with coordinated(run, BindAddress()) as shared:
            for unit in units:
                reports.append(run_work_unit(shared.run, unit, self._clocks))
                stopped = watch(tuple(reports)) or shared.spent()
                if stopped is not None and len(reports) < len(units):
                    return Execution(tuple(reports), stopped)
        return Execution(tuple(reports))

    def query(self, run: RunContext, query: Query, watch: Watch) -> QueryResult:
        """Run a query by DuckDB in place of Spark; a function gets and returns Arrow tables."""
        import duckdb

        from dil.execution.queries.query import in_order, part_of

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
        rows = (batch for batch in found.to_batches() if batch.num_rows)
        return in_order(query.unit, {0: run_attempt_over(rows, run, part_of(query.unit, 0), 1)})

    def differing(self, one: View, other: View) -> int:
        """Return how many rows of one view the other lacks."""
        lacking = Counter(map(repr, _table(one).to_pylist()))
        return (lacking - Counter(map(repr, _table(other).to_pylist()))).total()

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call the function for one item after the other."""
        return [function(item) for item in items]


def _table(view: View) -> pa.Table:
    import pyarrow as pa

    rows = (batch for task in range(len(view.tasks)) for batch in view.rows(task, view.known))
    return pa.Table.from_batches(rows, view.known)
