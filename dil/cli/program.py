"""The command ``dil``: imports modules when a command needs them, maps errors to exit codes."""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from dil import __version__
from dil.cli import COMPLETION_VARIABLE
from dil.cli.groups import SuggestingGroup
from dil.cli.invocation import Invocation
from dil.cli.outcome import describe
from dil.cli.signals import interruptible
from dil.errors import ConfigError
from dil.run.failing import exit_code, failed_report

_YOUNG_OBJECTS = 50_000
# Command name -> where it is; imported when it is called, or for the list of commands.
_COMMANDS = {
    "run": "dil.cli.run:run",
    "plan": "dil.cli.plan:plan",
    "validate": "dil.cli.validate:validate",
    "check": "dil.cli.preview:check",
    "preview": "dil.cli.preview:preview",
    "state": "dil.cli.state:state",
    "runs": "dil.cli.runs:runs",
    "compact": "dil.cli.compact:compact",
    "lineage": "dil.cli.lineage:lineage",
    "lateness": "dil.cli.lateness:lateness",
    "timelabels": "dil.cli.timelabels:timelabels",
    "backfill": "dil.cli.backfill:backfill",
    "explain": "dil.cli.explain:explain",
    "schema": "dil.cli.schema:schema",
    "secrets": "dil.cli.secrets:secrets",
    "package": "dil.cli.package:package",
    "completion": "dil.cli.completion:completion",
}


class LazyGroup(SuggestingGroup):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help text."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None when there is none of that name."""
        del ctx
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(importlib.import_module(module), name)
        return command if isinstance(command, click.Command) else None


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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
            return _invoke(arguments, invocation)
    except click.exceptions.Exit as stop:  # --help, --version
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        if arguments[:1] == ["run"] and "--json" in arguments:
            _report_usage_error(invocation, error)
        return error.exit_code
    except BaseException as error:  # noqa: BLE001 - the outermost boundary: one text, one exit code
        located = invocation.located(error)
        click.echo(invocation.redact(describe(located, verbose=invocation.verbose)), err=True)
        return exit_code(error)


def _invoke(arguments: list[str], invocation: Invocation) -> int:
    # Not click's own main, which turns every broken pipe, also a state server's, into exit 1.
    with cli.make_context("dil", arguments, obj=invocation) as context:
        result = cli.invoke(context)
    return result if isinstance(result, int) else 0


def _report_usage_error(invocation: Invocation, error: click.ClickException) -> None:
    """Print the report that ``run --json`` owes its caller on every exit."""
    from dil.cli.run import deliver

    cause = ConfigError.single("", error.format_message(), "See `dil run --help`.")
    report = failed_report(cause, job="", run_id="", seconds=invocation.seconds())
    deliver(invocation, report, as_json=True, is_reported=True)
