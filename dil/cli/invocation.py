"""One call of ``dil``: its log, its clock, the secrets that it masks, and how it says a failure."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from dil.cli.arguments import parse_now
from dil.errors import ConfigError, DilError, Problem, RunInterruptedError
from dil.observe.property_places import located_advice
from dil.run.exit_codes import AGAIN, INTERNAL, error_line, interruption
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.model.secret import Secret

log = logging.getLogger("dil.cli")


@dataclass(slots=True)
class Invocation:
    """The state of one call of the command line.

    ``verbose`` shows tracebacks. ``job_name`` is set when a job was loaded, ``run_id`` when a run
    begins. Before the job is loaded, ``redact`` masks only texts that look like a credential. After
    that, it also masks every secret of the job.
    """

    verbose: bool = False
    json_log: bool = False
    quiet: bool = False
    job_name: str | None = None
    run_id: str = ""
    started: float = field(default_factory=time.monotonic)
    _secrets: tuple[Secret, ...] = ()
    _redact: Callable[[str], str] | None = None
    _job: Job | None = None

    def begin(self, *, verbose: bool, log_format: str, quiet: bool = True) -> None:
        """Take the command line's settings of the log; a quiet command logs only warnings."""
        self.verbose = verbose
        self.json_log = log_format == "json"
        self.quiet = quiet

    @property
    def task_log_level(self) -> str:
        """Return the log level of tasks: by default WARNING, because many work units may log."""
        return "DEBUG" if self.verbose else "WARNING"

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        if self._redact is None:
            # Imported here: commands without a job mask a text only when they fail.
            from dil.observe.redaction import redactor

            self._redact = redactor(self._secrets)
        return self._redact(text)

    def print_error(self, error: BaseException) -> BaseException:
        """Print an error, with its traceback if ``verbose``; return it with its places."""
        located = self._located(error)
        if isinstance(located, ConfigError):
            count = len(located.problems)
            noun = "problem" if count == 1 else "problems"
            warnings = "".join(f"warning: {notice}\n" for notice in located.warnings)
            text = f"{located}\n{warnings}{count} {noun}, nothing was done  [{located.code}]"
        elif isinstance(located, DilError):
            text = str(located)
        elif isinstance(located, KeyboardInterrupt):
            text = f"{interruption(located)}  [{RunInterruptedError.code}]\n    {AGAIN}"
        else:
            text = (
                f"internal error: {error_line(located)}  [{INTERNAL}]\n"
                "    Run again with -v for the traceback, and report it."
            )
        if self.verbose and not isinstance(located, ConfigError):
            trace = "".join(traceback.format_exception(located)).rstrip()
            text = f"{trace}\n{text}"
        click.echo(self.redact(text), err=True)
        return located

    def _located(self, error: BaseException) -> BaseException:
        """Return the error with file and line of the job's properties that the error names."""
        if self._job is None or not isinstance(error, DilError):
            return error
        places = self._job.properties.origin
        if isinstance(error, ConfigError):
            return error.located(places)
        error.fix = located_advice(error.code, error.message, error.fix, places)
        return error

    def seconds(self) -> float:
        """Return the seconds since the call began."""
        return time.monotonic() - self.started

    def now(self, text: str | None) -> int:
        """Return the instant of ``--now``, or else of the clock, in epoch ms UTC."""
        return real_clock() if text is None else parse_now(text)

    def know(self, job: Job, secrets: tuple[Secret, ...]) -> None:
        """Take the job that the call is about: from now on, the job's secrets are masked."""
        self._job, self.job_name = job, job.name
        self._secrets, self._redact = secrets, None

    def log_notices(self, notices: Iterable[Problem], infos: Collection[Problem] = ()) -> None:
        """Log the notices about a job file, one line each.

        ``infos`` are notices that ask for no action. ``dil run`` logs other notices as warnings, as
        ``dil validate`` prints them; the quiet commands (``plan``, ``state``) show them with -v.
        """
        for notice in notices:
            is_warning = not self.quiet and notice not in infos
            level = logging.WARNING if is_warning else logging.INFO
            what, _, fix = str(notice).partition("\n")
            if fix and not what.endswith((".", "?", "!", ":")):
                what += "."  # the advice is a sentence of its own
            line = " ".join(f"{what} {fix}".split())
            log.log(level, "%s", line, extra={"event": "config.notice"})
