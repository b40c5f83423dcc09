"""The executors of a run, for extraction and for large steps before publishing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dil.execution.executor import Executor, cores
from dil.model.job import Job

if TYPE_CHECKING:
    from dil.execution.queries.query import QueryExecutor
    from dil.execution.session import SparkSettings
    from dil.execution.spark import SparkExecutor

STAGE_BYTES = 256 * 1024 * 1024

T = TypeVar("T")
R = TypeVar("R")


class Executors:
    """The executors of one run: the caller's own, or Spark, whose session lives until ``close``.

    ``cache`` is a folder that survives the run. ``spark`` is a SparkContext of the caller;
    ``is_embedded`` says that this process continues after the run. If ``is_kept`` is true, one
    session serves all stages of work units, with as many tasks at a time as the job allows.
    """

    def __init__(
        self,
        job: Job,
        environ: Mapping[str, str],
        cache: Path | None = None,
        own: Executor | None = None,
        *,
        spark: object = None,
        is_embedded: bool = False,
        is_kept: bool = False,
    ) -> None:
        self._job = job
        self._environ = environ
        self._cache = cache
        self._own = own
        self._given = spark
        self._is_embedded = is_embedded
        self._is_kept = is_kept
        self._spark: SparkExecutor | None = None

    def for_units(self, units: int) -> Executor:
        """Return the executor for work units; a session that is not kept is stopped first."""
        if self._is_kept:
            if self._spark is not None:
                return self._spark
            units = self._job.running.threads
        else:
            self.close()
        from dil.execution.shares import local_slots

        return self._own or self._new_spark(local_slots(self._job, units))

    def for_query(self) -> QueryExecutor:
        """Return the executor for a derived dataset's query; a local session uses all cores."""
        from dil.execution.queries.query import QueryExecutor

        own: object = self._own
        if isinstance(own, QueryExecutor):
            return own
        return self._spark or self._new_spark(cores())

    def for_steps(self, tasks: int) -> Executor:
        """Return the executor for other tasks; it uses an existing session."""
        return self._own or self._spark or self._new_spark(tasks)

    def close(self) -> None:
        """Stop the session, if there is one."""
        if self._spark is not None:
            self._spark.close()
            self._spark = None

    def settings(self, threads: int) -> SparkSettings:
        """Return the settings of the run's session."""
        # Imported here: a run with nothing due starts no session.
        from dil.execution.session import SparkSettings
        from dil.execution.shipping import plugin_modules

        return SparkSettings(
            f"dil {self._job.name}",
            threads,
            self._environ,
            self._cache,
            plugins=plugin_modules(self._job),
            given=self._given,
            is_embedded=self._is_embedded,
        )

    def _new_spark(self, tasks: int) -> SparkExecutor:
        from dil.execution.spark import SparkExecutor

        self._spark = SparkExecutor(self.settings(min(self._job.running.threads, tasks)))
        return self._spark


@dataclass(frozen=True, slots=True)
class Stages:
    """Runs steps between extraction and publishing: small ones here, large ones as tasks."""

    executors: Executors
    bytes: int = STAGE_BYTES

    def __call__(self, function: Callable[[T], R], items: Sequence[T], size: int) -> list[R]:
        """Call the function for each item; return the results in the order of the items.

        ``size`` is how many bytes the calls read in all.

        Raises:
            DilError: the error of the first failed call, or Spark's own failure.
        """
        if size < self.bytes or len(items) < 2:  # noqa: PLR2004 - one item has no company
            return [function(item) for item in items]
        return self.executors.for_steps(len(items)).map(function, items)
