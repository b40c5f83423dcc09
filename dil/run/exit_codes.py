"""An exception as the outcome of a run: an exit code, a stable code, a report."""

from __future__ import annotations

from dil.errors import ConfigError, DilError, LeaseHeldError, RunInterruptedError
from dil.model.report import ReportedFailure, RunReport, RunStatus, UnitCounts

INTERNAL = "DIL-INTERNAL"
AGAIN = "Run the job again."

FAILED = 1
INVALID = 2
LEASE_HELD = 3
SIGINT_EXIT = 130


def exit_code(error: BaseException) -> int:
    """Return the exit code of a process that ends with this exception."""
    match error:
        case ConfigError():
            return INVALID
        case LeaseHeldError():
            return LEASE_HELD
        case RunInterruptedError():
            return error.exit_code
        case KeyboardInterrupt():
            return int(getattr(error, "exit_code", SIGINT_EXIT))
        case _:
            return FAILED


def code_of(error: BaseException) -> str:
    """Return the stable code: the error's own, or DIL-INTERNAL for a defect of this program."""
    match error:
        case DilError():
            return error.code
        case KeyboardInterrupt():
            return RunInterruptedError.code
        case _:
            return INTERNAL


def report_error(error: BaseException, *, job: str, run_id: str, seconds: float) -> RunReport:
    """Return a report for a run that failed before it made one; no run id if no run began."""
    code = code_of(error)
    match error:
        case ConfigError():
            failures = [ReportedFailure(None, code, str(problem)) for problem in error.problems]
        case DilError():
            failures = [ReportedFailure(None, code, error.message, error.fix)]
        case KeyboardInterrupt():
            failures = [ReportedFailure(None, code, interruption(error), AGAIN)]
        case _:
            failures = [ReportedFailure(None, code, error_line(error))]
    return RunReport(
        job=job,
        run_id=run_id,
        status=RunStatus.FAILED,
        units=UnitCounts(),
        failures=tuple(failures),
        seconds=seconds,
        forced_exit_code=exit_code(error),
    )


def interruption(error: KeyboardInterrupt) -> str:
    """Return a text that says how a run was interrupted."""
    return str(error) or "stopped by SIGINT"


def error_line(error: BaseException) -> str:
    """Return the class and the text of an exception on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
