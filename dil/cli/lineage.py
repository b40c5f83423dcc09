"""``dil lineage``: shows the files, work units and requests from which rows of a dataset come."""

from __future__ import annotations

import os

import click

from dil import config
from dil.cli.arguments import utf_8_text
from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit_json, emit_lines, results_only
from dil.errors import ConfigError
from dil.operator.lineage import Tracer, trace_json, trace_lines
from dil.run.process import real_clock


@click.command()
@job_command()
@click.option(
    "--row",
    metavar="OFFSET|COLUMN=VALUE",
    callback=utf_8_text,
    help="Show the row of this offset, or the first ten rows with this value.",
)
@click.option(
    "--block",
    "sequence",
    metavar="NUMBER",
    type=click.IntRange(min=0),
    help="Show the rows of this block. Unset: of the newest block with rows.",
)
def lineage(call: JobCall, *, row: str | None, sequence: int | None) -> int:
    """Walk from rows back to the files, work units and requests from which they come.

    Rows of a derived dataset lead to the rows that its query read, and from there to their origin.
    The command changes nothing.
    """
    if row is not None and sequence is not None:
        raise ConfigError.single("--block", "is given, and --row too", "Keep one of them.")
    with results_only():
        job = call.job(secrets=False)
        environ = dict(os.environ)
        tracer = Tracer(
            job,
            real_clock,
            lambda path: config.load(path, environ=environ, secrets=False).job,
        )
        found = tracer.block(sequence) if row is None else tracer.row(row)
    if call.as_json:
        emit_json({"job": job.name, "blocks": list(map(trace_json, found))})
    else:
        emit_lines(line for block in found for line in trace_lines(block))
    return 0
