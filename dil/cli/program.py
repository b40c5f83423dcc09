"""The command ``dil``: imports modules when a command needs them, maps errors to exit codes."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence

import click

from dil import __version__
from dil.cli import COMPLETION_VARIABLE
from dil.cli.groups import LazyGroup
from dil.cli.invocation import Invocation
from dil.cli.signals import interruptible
from dil.run.exit_codes import exit_code

_YOUNG_OBJECTS = 50_000
_COMMANDS = {
    "run": ("dil.cli.run:run", "Run the job: plan, extract, publish, remember."),
    "plan": ("dil.cli.plan:plan", "Show what a run would do now; start nothing."),
    "validate": ("dil.cli.validate:validate", "Check a job file without running it."),
    "check": (
        "dil.cli.preview:check",
        "Reach destination, state store and source: connect, log in, ask once.",
    ),
    "preview": (
        "dil.cli.preview:preview",
        "Show the first rows of the source and their columns.",
    ),
    "state": ("dil.cli.state:state", "Look at the state of a job, and repair it."),
    "runs": (
        "dil.cli.runs:runs",
        "Look at the runs of a job, and clean up after crashed runs.",
    ),
    "compact": ("dil.cli.compact:compact", "Join small files; delete old versions of a table."),
    "lineage": (
        "dil.cli.lineage:lineage",
        "Show where rows of a dataset come from, across jobs.",
    ),
    "lateness": (
        "dil.cli.lateness:lateness",
        "Show how far behind new rows come, and which grace period fits.",
    ),
    "timelabels": ("dil.cli.timelabels:timelabels", "List, close and reopen timelabels."),
    "backfill": (
        "dil.cli.backfill:backfill",
        "Read a range of a job again, beside its live data.",
    ),
    "explain": (
        "dil.cli.explain:explain",
        "Explain what a property or an error code means, or find one by words.",
    ),
    "schema": ("dil.cli.schema:schema", "Print the JSON Schema of .yaml job files."),
    "secrets": ("dil.cli.secrets:secrets", "Encrypt secrets for job files."),
    "package": ("dil.cli.package:package", "Write what executors must be shipped."),
    "completion": (
        "dil.cli.completion:completion",
        "Print a script that completes commands and options in a shell.",
    ),
}


@click.command(
    cls=LazyGroup, places=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="dil")
def cli() -> None:
    """Config-driven ingestion on Spark: one job file says what to read and where to put it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process (rule U24)."""
    # Start-up makes many objects that stay: the cycle collector would take a tenth of its time.
    gc.set_threshold(_YOUNG_OBJECTS)
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # A unit may hold any character; a terminal that cannot show it must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    invocation = Invocation()
    try:
        with interruptible():
            if argv is None and COMPLETION_VARIABLE in os.environ:
                from dil.cli.completion import answer_shell  # for a shell's completion

                return answer_shell(cli)
            # Not click's own main, which turns every broken pipe into exit code 1, also that of a
            # state server.
            with cli.make_context("dil", arguments, obj=invocation) as context:
                result = cli.invoke(context)
            return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:  # --help, --version
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BaseException as error:  # noqa: BLE001 - the outermost boundary: one text, one exit code
        invocation.print_error(error)
        return exit_code(error)
