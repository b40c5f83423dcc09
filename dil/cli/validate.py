"""``dil validate``: everything that is wrong with a job file, at once."""

from __future__ import annotations

from collections.abc import Iterable

import click

from dil.cli.invocation import Invocation
from dil.cli.job_command import JobCall, job_command
from dil.cli.outcome import exit_code
from dil.cli.stdout import emit, emit_json, results_only
from dil.errors import ConfigError, Problem


@click.command()
@job_command()
def validate(call: JobCall) -> int:
    """Check a job file without running it; exit code 2 when it is invalid."""
    invocation = call.invocation
    try:
        with results_only():
            loaded = call.load()
    except ConfigError as error:
        if not call.as_json:
            raise
        _print_json(invocation, problems=error.problems)
        return exit_code(error)
    if call.as_json:
        _print_json(invocation, notices=loaded.notices)
        return 0
    for notice in loaded.notices:
        kind = "info" if notice in loaded.infos else "warning"
        emit(invocation.redact(f"{kind}: {notice}\n"))
    emit(f"{call.job_file}: job {invocation.job_name} is valid\n")
    return 0


def _print_json(
    invocation: Invocation, *, problems: Iterable[Problem] = (), notices: Iterable[Problem] = ()
) -> None:
    found = [_finding(problem, invocation) for problem in problems]
    emit_json(
        {
            "job": invocation.job_name,
            "valid": not found,
            "problems": found,
            "notices": [_finding(notice, invocation) for notice in notices],
        }
    )


def _finding(problem: Problem, invocation: Invocation) -> dict[str, str | int | None]:
    origin = problem.origin
    return {
        "path": origin.path if origin else None,
        "line": origin.line if origin else None,
        "key": problem.key or None,
        "what": invocation.redact(problem.what),
        "fix": invocation.redact(problem.fix) or None,
    }
