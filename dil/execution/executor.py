"""What the job asks of whoever runs its tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dil.errors import AuthenticationError, QuotaError, TransientSourceError
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit

_REFUSALS = frozenset({AuthenticationError.code, TransientSourceError.code})
_EVIDENCE = 3


@dataclass(frozen=True, slots=True)
class Execution:
    """What came back: reports in task order, and why tasks without a report never finished."""

    reports: tuple[TaskReport, ...]
    stopped: Failure | None = None


T = TypeVar("T")
R = TypeVar("R")

Watch = Callable[[Sequence[TaskReport]], "Failure | None"]
"""Looks at the reports so far, several times a second; a failure stops what has not started."""


class Executor(Protocol):
    """Runs tasks, each once or more; attempts whose report never came back do not count."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run all work units and return what their tasks reported; a failed task never raises."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function for each item, one task each, and return the results in their order.

        Function, items and results pickle; a call may be made more than once.

        Raises:
            DilError: what the first failed call raised.
            ExecutionError: the tasks could not be run.
        """


def quota_spent(why: str, fix: str = "") -> Failure:
    """Return why a run ended before its last work unit began."""
    return Failure(QuotaError.code, f"no further work unit was begun: {why}", fix=fix)


def hopeless(reports: Sequence[TaskReport]) -> Failure | None:
    """Return why the remaining work units would fail like these, None while there is hope.

    A spent quota ends the run at once: nothing more is to be had before it opens again. A source
    that refuses every work unit ends it early (spec README 30): the first reports all failed, all
    for credentials, or for the same unreachable source.
    """
    failures = [report.failure for report in reports]
    for failure in failures:
        if failure is not None and failure.code == QuotaError.code:
            return quota_spent(failure.error, failure.fix)
    if len(failures) < _EVIDENCE or any(failure is None for failure in failures):
        return None
    codes = {failure.code for failure in failures if failure is not None}
    first = failures[0]
    if first is None or len(codes) > 1 or first.code not in _REFUSALS:
        return None
    return Failure(first.code, f"the source refused every work unit so far; last: {first.error}")
