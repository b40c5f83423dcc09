"""Exit codes and codes of errors that end a command."""

from __future__ import annotations

import pytest

from dil.errors import (
    ConfigError,
    DilError,
    LeaseHeldError,
    RunInterruptedError,
    StateError,
    WriteError,
)
from dil.model.report import RunStatus
from dil.run.exit_codes import INTERNAL, code_of, exit_code, report_error


def interrupted(exit_code: int) -> KeyboardInterrupt:
    error = KeyboardInterrupt("stopped by SIGTERM")
    error.exit_code = exit_code  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "wanted", "code"),
    [
        (ConfigError.single("key", "is wrong", "Correct it."), 2, ConfigError.code),
        (LeaseHeldError("held"), 3, LeaseHeldError.code),
        (StateError("damaged"), 1, StateError.code),
        (WriteError("full"), 1, WriteError.code),
        (RunInterruptedError("stopped", exit_code=143), 143, RunInterruptedError.code),
        (KeyboardInterrupt(), 130, RunInterruptedError.code),
        (interrupted(143), 143, RunInterruptedError.code),
        (ZeroDivisionError("0"), 1, INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_error_has_its_exit_code_and_its_code(
    error: BaseException, wanted: int, code: str
) -> None:
    assert (exit_code(error), code_of(error)) == (wanted, code)
    report = report_error(error, job="orders", run_id="r", seconds=1)
    assert (report.exit_code, report.status) == (wanted, RunStatus.FAILED)
    assert [each.code for each in report.failures] == [code]


@pytest.mark.parametrize(
    ("status", "code"),
    [("success", 0), ("nothing_due", 0), ("failed", 1), ("partial", 4)],
)
def test_each_outcome_has_its_exit_code(status: str, code: int) -> None:
    assert RunStatus(status).exit_code == code


def test_several_problems_of_a_job_are_several_failures() -> None:
    problems = [
        *ConfigError.single("a", "is wrong", "Correct it.").problems,
        *ConfigError.single("b", "is wrong", "Correct it.").problems,
    ]
    error: DilError = ConfigError(problems)
    report = report_error(error, job="orders", run_id="", seconds=0)
    assert len(report.failures) == 2
