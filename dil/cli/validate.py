"""``dil validate``: shows all problems of a job file at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from dil.cli.arguments import parse_definitions
from dil.cli.invocation import Invocation
from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit, emit_json, results_only
from dil.config.reader import written_values
from dil.errors import ConfigError, Problem
from dil.run.failing import exit_code


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
        found = {"warnings": error.warnings, "notices": error.infos}
        _print_json(call, problems=error.problems, code=error.code, **found)
        return exit_code(error)
    if call.as_json:
        warnings = [notice for notice in loaded.notices if notice not in loaded.infos]
        _print_json(call, warnings=warnings, notices=loaded.infos)
        return 0
    for notice in loaded.notices:
        kind = "info" if notice in loaded.infos else "warning"
        emit(invocation.redact(f"{kind}: {notice}\n"))
    emit(f"{call.job_file}: job {invocation.job_name} is valid\n")
    return 0


def _print_json(
    call: JobCall,
    *,
    problems: Iterable[Problem] = (),
    warnings: Iterable[Problem] = (),
    notices: Iterable[Problem] = (),
    code: str = ConfigError.code,
) -> None:
    values = written_values(call.job_file, _overrides(call))
    found = {
        name: [_finding(each, code, values, call.invocation) for each in group]
        for name, group in (("problems", problems), ("warnings", warnings), ("notices", notices))
    }
    emit_json({"job": call.invocation.job_name, "valid": not found["problems"], **found})


def _overrides(call: JobCall) -> dict[str, str]:
    try:
        return parse_definitions(call.definitions)
    except ConfigError:
        return {}  # This problem is reported already.


def _finding(
    problem: Problem, code: str, values: Mapping[str, str], invocation: Invocation
) -> dict[str, str | int | None]:
    origin, value = problem.origin, values.get(problem.key)
    return {
        "code": code,
        "property": problem.key or None,
        "file": origin.path if origin else None,
        "line": origin.line if origin else None,
        "value": None if value is None else invocation.redact(value),
        "message": invocation.redact(problem.what),
        "fix": invocation.redact(problem.fix) or None,
    }
