"""The common parameters of commands about one job: file, -D, --lenient, --json, logging."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import click

from dil import config
from dil.cli.arguments import parse_definitions
from dil.cli.completion import property_names
from dil.cli.invocation import Invocation
from dil.config import Loaded
from dil.errors import ConfigError
from dil.model.job import Job
from dil.model.secret import Secret
from dil.observe import logs
from dil.observe.redaction import secrets_of

now_option = click.option(
    "--now",
    metavar="ISO8601",
    help="Use this instant in place of the clock, for planning and CURRENTDATE: "
    "2024-03-05T00:00:00Z.",
)


# The help text lists these options in this order, before a command's own options.
_PARAMETERS = (
    click.argument("job_file", metavar="JOB.conf", type=click.Path()),
    click.option(
        "-D",
        "definitions",
        metavar="KEY=VALUE",
        multiple=True,
        shell_complete=property_names,
        help="Set a property; it wins over the file. May be given many times.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output."),
    click.option(
        "--lenient", is_flag=True, help="Report unknown ms.* properties as warnings, not errors."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Log details, and tracebacks of failures."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        envvar="DIL_LOG_FORMAT",
        show_envvar=True,
        help="Log texts for people, or one JSON object on each line.",
    ),
)


@dataclass(frozen=True, slots=True)
class JobCall:
    """One call of a command about one job, with its options from the command line."""

    invocation: Invocation
    job_file: str
    definitions: tuple[str, ...]
    lenient: bool
    as_json: bool

    def load(self, *, secrets: bool = True) -> Loaded:
        """Read and check the job file.

        If ``secrets`` is false, a secret that cannot be read is only a notice.

        Raises:
            ConfigError: the job file is invalid; the error has all problems.
        """
        overrides = parse_definitions(self.definitions)
        try:
            loaded = config.load(
                self.job_file,
                overrides=overrides,
                environ=os.environ,
                lenient=self.lenient,
                secrets=secrets,
            )
        except ConfigError:
            name = config.peek_name(self.job_file, overrides, os.environ)
            self.invocation.job_name = name or None
            raise
        secrets_of_job = secrets_of(loaded.job)
        self.invocation.know(loaded.job, secrets_of_job)
        _log(self.invocation, secrets_of_job)
        return loaded

    def job(self, *, secrets: bool = True) -> Job:
        """Read and check the job file as ``load`` does, and log the notices.

        If ``secrets`` is false, secrets of the source may be missing; commands that never ask the
        source use this.
        """
        loaded = self.load(secrets=secrets)
        self.invocation.log_notices(loaded.notices, loaded.infos)
        return loaded.job

    def source_job(self, command: str, instead: str, *, secrets: bool = True) -> Job:
        """Return the job as ``job`` does, for commands that need a job with a source.

        Raises:
            ConfigError: the job file is invalid, or the job reads datasets.
        """
        job = self.job(secrets=secrets)
        refuse_derived(job, command, instead)
        return job


def refuse_derived(job: Job, command: str, instead: str) -> None:
    """Refuse a command about a source for a job that reads datasets.

    Raises:
        ConfigError: the job has ms.query.inputs; ``instead`` says what to use instead.
    """
    if job.query is None:
        return
    raise ConfigError.single(
        "ms.query.inputs",
        f"is set: {job.name} reads datasets, so it has no source and no time ranges that "
        f"`{command}` could use",
        instead,
        job.properties.origin("ms.query.inputs"),
    )


def _log(invocation: Invocation, secrets: tuple[Secret, ...]) -> None:
    """Configure the log, which masks these secrets; a later call replaces the configuration."""
    level = "DEBUG" if invocation.verbose else "WARNING" if invocation.quiet else "INFO"
    logs.configure(level=level, json_lines=invocation.json_log, stream=sys.stderr, secrets=secrets)


def job_command(*, quiet: bool = True) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Pass the shared parameters to a command as a ``JobCall``; if ``quiet``, log only warnings."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def call(
            *,
            job_file: str,
            definitions: tuple[str, ...],
            as_json: bool,
            lenient: bool,
            verbose: bool,
            log_format: str,
            **own: object,
        ) -> int:
            invocation = click.get_current_context().ensure_object(Invocation)
            invocation.begin(verbose=verbose, log_format=log_format, quiet=quiet)
            _log(invocation, ())
            return command(JobCall(invocation, job_file, definitions, lenient, as_json), **own)

        decorated: Callable[..., int] = call
        for parameter in reversed(_PARAMETERS):
            decorated = parameter(decorated)
        return decorated

    return decorate
