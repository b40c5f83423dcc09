"""``dil run``: runs a job once, and reports on every exit."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dil.cli.invocation import Invocation
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.signals import stoppable
from dil.cli.stdout import emit, emit_json, results_only
from dil.errors import ConfigError, LeaseHeldError
from dil.model.task import TaskLogging
from dil.observe.logs import bind
from dil.observe.progress import LineProgress, SilentProgress, progress_for
from dil.observe.report import check_report_place, redacted, report_json, report_text, write_report
from dil.run.exit_codes import report_error
from dil.run.job_run import run_job
from dil.run.lease import new_run_id
from dil.run.options import RunOptions
from dil.run.plan_builder import read_plan
from dil.run.process import cache_dir, real_clock

if TYPE_CHECKING:
    from dil.model.report import RunReport


class _ReportingCommand(click.Command):
    """A command that reports on every exit, also if the command line is wrong."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # settings of click
    ) -> click.Context:
        """Parse the arguments; if ``--json`` is given, report a mistake in them as JSON, too.

        Raises:
            click.ClickException: the arguments are wrong.
        """
        arguments = list(args)  # click takes from the list what it has parsed
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            if "--json" in arguments and parent is not None:
                invocation = parent.ensure_object(Invocation)
                cause = ConfigError.single("", error.format_message(), "See `dil run --help`.")
                report = report_error(cause, job="", run_id="", seconds=invocation.seconds())
                deliver(invocation, report, as_json=True, is_reported=True)
            raise


@click.command(cls=_ReportingCommand)
@job_command(quiet=False)
@now_option
@click.option(
    "--report",
    "report_file",
    metavar="FILE",
    help="Also write the JSON report to this file, on every exit.",
)
@click.option(
    "--wait-lease",
    "wait_lease_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Wait this long for another run of the job to end, then exit with code 3.",
)
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Run exactly the plan of `dil plan --out FILE`, if state and configuration are unchanged.",
)
@click.option(
    "--accept-new-signatures",
    is_flag=True,
    help="Run although from, zone or partition type changed, or the state was lost: everything is"
    " extracted again.",
)
@click.option(
    "--force-new-epoch",
    is_flag=True,
    help="For a stream: begin a new epoch although its checkpoint is ahead of the chain.",
)
@click.option(
    "--show-request",
    is_flag=True,
    help="Log each request with its values, also as a curl command; secrets are masked.",
)
def run(
    call: JobCall,
    *,
    now: str | None,
    report_file: str | None,
    wait_lease_s: float,
    plan_file: Path | None,
    **flags: bool,
) -> int:
    """Run the job: plan due work units, extract them, publish their rows, keep watermarks.

    A stream (ms.stream.mode) runs in micro-batches until it has caught up or, as a service, until a
    signal ends it between two micro-batches; a second signal ends it at once.

    Exit codes: 0 success or nothing due, 1 failed, 2 configuration invalid, 3 lease held by
    another run, 4 partial, 130 and 143 interrupted.
    """

    def start() -> RunReport:
        now_ms = call.invocation.now(now)
        _check_report_file(report_file)
        if plan_file is not None and now is not None:
            raise ConfigError.single("--plan", "has a now of its own", "Leave --now out.")
        saved = None if plan_file is None else read_plan(plan_file)
        job = call.job()
        invocation = call.invocation
        invocation.run_id = new_run_id(real_clock())
        options = run_options(call, now_ms)
        logging = options.task_logging
        if flags["show_request"]:
            # Requests are logged at INFO.
            level = "INFO" if logging.level == "WARNING" else logging.level
            logging = replace(logging, level=level, shows_requests=True)
        options = replace(
            options,
            wait_lease_s=wait_lease_s,
            accept_new_signatures=flags["accept_new_signatures"],
            plan=saved,
            run_id=invocation.run_id,
            task_logging=logging,
        )
        if job.stream is not None:  # a service logs one line for each micro-batch instead
            is_service = job.stream.is_service
            progress = SilentProgress() if is_service else LineProgress(clock=time.monotonic)
            options = replace(options, progress=progress)
        with bind(job=job.name, run_id=invocation.run_id):
            try:
                if job.stream is None or saved is not None:
                    return run_job(job, options)
                from dil.operator.streaming import run_stream  # few jobs are streams

                with stoppable() as stop:
                    return run_stream(
                        job,
                        options,
                        stops=stop,
                        has_now=now is not None,
                        forces_new_epoch=flags["force_new_epoch"],
                    )
            except LeaseHeldError as error:
                if wait_lease_s:
                    what = f"{error.message}; waited {wait_lease_s:g} s for it to end"
                    raise LeaseHeldError(what, error.fix) from error
                fix = f"{error.fix} Or wait in line: --wait-lease SECONDS.".strip()
                raise LeaseHeldError(error.message, fix) from error

    report, is_reported = report_of(call, start)
    return deliver(
        call.invocation,
        report,
        as_json=call.as_json,
        is_reported=is_reported,
        report_file=report_file,
    )


def run_options(call: JobCall, now_ms: int) -> RunOptions:
    """Return the options of any command that runs work units: clock, environment, log, progress."""
    return RunOptions(
        now_ms=now_ms,
        clock=real_clock,
        progress=progress_for(sys.stderr),
        environ=os.environ,
        cache=cache_dir(os.environ),
        task_logging=TaskLogging(call.invocation.task_log_level, call.invocation.json_log),
    )


def report_of(call: JobCall, start: Callable[[], RunReport]) -> tuple[RunReport, bool]:
    """Return the run's report, and whether standard error says already how the run ended."""
    try:
        with results_only():
            return start(), False
    except BaseException as error:  # noqa: BLE001 - every exit of a run has a report
        invocation = call.invocation
        located = invocation.print_error(error)
        job = invocation.job_name or Path(call.job_file).stem
        seconds = invocation.seconds()
        return report_error(located, job=job, run_id=invocation.run_id, seconds=seconds), True


def deliver(
    invocation: Invocation,
    report: RunReport,
    *,
    as_json: bool,
    is_reported: bool,
    report_file: str | None = None,
    more: Mapping[str, object] = {},
) -> int:
    """Print the report of a run, and write it to a file; return the exit code of the process.

    The printed JSON also has the members in ``more``.
    """
    clean = redacted(report, invocation.redact)
    if report_file is not None:
        try:
            write_report(Path(report_file), clean)
        except OSError as error:
            # The run is complete, and the exit code must show its outcome.
            click.echo(f"--report {report_file} cannot be written: {error}", err=True)
    if as_json:
        emit_json({**report_json(clean), **more})
    elif not is_reported:
        emit(report_text(clean))
    return report.exit_code


def _check_report_file(report_file: str | None) -> None:
    """Check before the run, not after it, that the report can be written."""
    if report_file is None:
        return
    try:
        check_report_place(Path(report_file))
    except OSError as error:
        raise ConfigError.single(
            "--report",
            f'"{report_file}" cannot be written: {error.strerror}',
            "Name a file in an existing folder that this user may write to.",
        ) from None
