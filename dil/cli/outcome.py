"""What an exception means outside: an exit code, a text for people, a report for machines."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from dil.cli.signals import Interruption
from dil.errors import ConfigError, DilError, LeaseHeldError, RunInterruptedError

if TYPE_CHECKING:
    from dil.model.report import ReportedFailure, RunReport

INTERNAL = "DIL-INTERNAL"

FAILED = 1
INVALID = 2
LEASE_HELD = 3
SIGINT_EXIT = 130

_AGAIN = "Run the job again."


def exit_code(error: BaseException) -> int:
    """Return the exit code of the process (design.md section 5)."""
    match error:
        case ConfigError():
            return INVALID
        case LeaseHeldError():
            return LEASE_HELD
        case RunInterruptedError():
            return error.exit_code
        case Interruption():
            return error.exit_code
        case KeyboardInterrupt():
            return SIGINT_EXIT
        case _:
            return FAILED


def code_of(error: BaseException) -> str:
    """Return the stable code: the error's own, or DIL-INTERNAL for what should not happen."""
    match error:
        case DilError():
            return error.code
        case KeyboardInterrupt():
            return RunInterruptedError.code
        case _:
            return INTERNAL


def describe(error: BaseException, *, verbose: bool) -> str:
    """Return what to print on standard error; with ``verbose`` the traceback comes along."""
    text = _summary(error)
    if verbose and not isinstance(error, ConfigError):
        trace = "".join(traceback.format_exception(error)).rstrip()
        return f"{trace}\n{text}"
    return text


def _summary(error: BaseException) -> str:
    if isinstance(error, ConfigError):
        count = len(error.problems)
        noun = "problem" if count == 1 else "problems"
        return f"{error}\n{count} {noun}, nothing was done  [{error.code}]"
    if isinstance(error, DilError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return f"{_interrupted(error)}  [{RunInterruptedError.code}]\n    {_AGAIN}"
    return (
        f"internal error: {_one_line(error)}  [{INTERNAL}]\n"
        "    Run again with -v for the traceback, and report it."
    )


def failed_report(error: BaseException, *, job: str, run_id: str, seconds: float) -> RunReport:
    """Return the report of a run that could not make its own; no run id when none had begun."""
    from dil.model.report import RunReport, RunStatus, UnitCounts

    return RunReport(
        job=job,
        run_id=run_id,
        status=RunStatus.FAILED,
        units=UnitCounts(),
        failures=_failures(error),
        seconds=seconds,
        forced_exit_code=exit_code(error),
    )


def _failures(error: BaseException) -> tuple[ReportedFailure, ...]:
    from dil.model.report import ReportedFailure

    code = code_of(error)
    if isinstance(error, ConfigError):
        return tuple(ReportedFailure(None, code, str(problem)) for problem in error.problems)
    if isinstance(error, DilError):
        return (ReportedFailure(None, code, error.message, error.fix),)
    if isinstance(error, KeyboardInterrupt):
        return (ReportedFailure(None, code, _interrupted(error), _AGAIN),)
    return (ReportedFailure(None, code, _one_line(error)),)


def _interrupted(error: KeyboardInterrupt) -> str:
    return str(error) or "stopped by SIGINT"


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
