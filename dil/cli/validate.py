"""``dil validate``: shows all problems of a job file at once."""

from __future__ import annotations

from collections.abc import Iterable

import click

from dil.cli.arguments import parse_definitions
from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit, emit_json, results_only
from dil.config.reader import written_values
from dil.errors import ConfigError, Problem
from dil.run.exit_codes import exit_code


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
        _print_json(call, error.code, error.problems, error.warnings, error.infos)
        return exit_code(error)
    if call.as_json:
        warnings = [notice for notice in loaded.notices if notice not in loaded.infos]
        _print_json(call, ConfigError.code, (), warnings, loaded.infos)
        return 0
    for notice in loaded.notices:
        kind = "info" if notice in loaded.infos else "warning"
        emit(invocation.redact(f"{kind}: {notice}\n"))
    emit(f"{call.job_file}: job {invocation.job_name} is valid\n")
    return 0


def _print_json(
    call: JobCall,
    code: str,
    problems: Iterable[Problem],
    warnings: Iterable[Problem],
    notices: Iterable[Problem],
) -> None:
    """Print the findings; each has the code, and the value that the job file or -D gives."""
    try:
        overrides = parse_definitions(call.definitions)
    except ConfigError:
        overrides = {}  # a wrong -D is one of the problems
    values, redact = written_values(call.job_file, overrides), call.invocation.redact

    def finding(problem: Problem) -> dict[str, str | int | None]:
        origin, value = problem.origin, values.get(problem.key)
        return {
            "code": code,
            "property": problem.key or None,
            "file": origin.path if origin else None,
            "line": origin.line if origin else None,
            "value": None if value is None else redact(value),
            "message": redact(problem.what),
            "fix": redact(problem.fix) or None,
        }

    found = {
        "problems": list(map(finding, problems)),
        "warnings": list(map(finding, warnings)),
        "notices": list(map(finding, notices)),
    }
    emit_json({"job": call.invocation.job_name, "valid": not found["problems"], **found})
