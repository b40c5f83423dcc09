"""``dil backfill JOB.conf --from --to`` and ``resume``: read a range, and resume it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dil.cli.arguments import parse_unit
from dil.cli.backfill import showing
from dil.cli.backfill.options import backfill_id_argument, options_of
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.run import report_of
from dil.cli.state.opening import instant
from dil.cli.stdout import emit, emit_json, results_only
from dil.model.derived import MADE_ANEW
from dil.model.interval import Interval
from dil.observe.logs import bind
from dil.observe.report import redacted, report_json, report_text
from dil.operator.backfill import reading
from dil.operator.backfill.definition import BackfillDefinition, find_backfill
from dil.run.lease import new_run_id
from dil.run.process import real_clock
from dil.state import open_store

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.model.report import RunReport
    from dil.spi.state_store import StateStore

_PACE = (
    click.option(
        "--parallelism",
        metavar="N",
        type=click.IntRange(min=1),
        help="Read N work units at once, in place of the job's number.",
    ),
    click.option(
        "--pause",
        "pause_s",
        metavar="SECONDS",
        type=click.IntRange(min=0),
        help="Wait so long between the starts of two work units.",
    ),
)


@click.command()
@job_command(quiet=False)
@now_option
@click.option(
    "--from", "low", metavar="TIME", required=True, help="Begin with the partition of this time."
)
@click.option("--to", "high", metavar="TIME", required=True, help="End before this time.")
@click.option("--unit", "units", metavar="JSON", multiple=True, help="Only this unit.")
@_PACE[0]
@_PACE[1]
@click.option(
    "--plan", "is_plan", is_flag=True, help="Show which work units would be read; read nothing."
)
@click.option(
    "--new",
    "is_new",
    is_flag=True,
    help="Begin another backfill, even if one of this range is unfinished.",
)
def start(  # noqa: PLR0913 - the options of the command
    call: JobCall,
    *,
    now: str | None,
    low: str,
    high: str,
    units: tuple[str, ...],
    parallelism: int | None,
    pause_s: int | None,
    is_plan: bool,
    is_new: bool,
) -> int:
    """Read a range again into a folder of its own; runs of the job continue meanwhile.

    All partitions of the job that have an instant in the range are read, each as a whole. If the
    command is killed, the same command continues. Exit codes are those of `dil run`.
    """
    wanted = tuple(sorted(set(map(parse_unit, units))))
    if is_plan:
        return _plan(call, now, (low, high), wanted)
    found: list[BackfillDefinition] = []

    def begin() -> RunReport:
        now_ms = call.invocation.now(now)
        job = _source_job(call)
        window = _window(job, low, high)
        known = None if is_new else reading.find_unpublished(job, window, wanted, real_clock)
        if known is None:
            with _live_store(job) as store:
                plan = reading.plan_backfill(job, store, window, wanted, now_ms=now_ms)
                known = reading.begin(job, store, plan, window, wanted, real_clock())
        found.append(known)
        return _read(call, job, known, now_ms, parallelism, pause_s)

    report, is_reported = report_of(call, begin)
    return _deliver(call, report, found, is_reported=is_reported)


@click.command()
@job_command(quiet=False)
@now_option
@backfill_id_argument
@_PACE[0]
@_PACE[1]
def resume(
    call: JobCall,
    *,
    now: str | None,
    backfill_id: str,
    parallelism: int | None,
    pause_s: int | None,
) -> int:
    """Read the unread work units of a backfill, and failed ones again."""
    found: list[BackfillDefinition] = []

    def go_on() -> RunReport:
        job = _source_job(call)
        definition = find_backfill(job, backfill_id)
        found.append(definition)
        return _read(call, job, definition, call.invocation.now(now), parallelism, pause_s)

    report, is_reported = report_of(call, go_on)
    return _deliver(call, report, found, is_reported=is_reported)


def _source_job(call: JobCall, *, secrets: bool = True) -> Job:
    return call.source_job(
        "dil backfill",
        f"To make the whole dataset again from its inputs: dil run JOB.conf {MADE_ANEW}.",
        secrets=secrets,
    )


def _plan(call: JobCall, now: str | None, bounds: tuple[str, str], units: tuple[str, ...]) -> int:
    with results_only():
        now_ms = call.invocation.now(now)
        job = _source_job(call, secrets=False)
        window = _window(job, *bounds)
        with _live_store(job) as store:
            plan = reading.plan_backfill(job, store, window, units, now_ms=now_ms)
        known = reading.find_unpublished(job, window, units, real_clock)
    showing.show_plan(call, job, plan, known)
    return 0


def _window(job: Job, low: str, high: str) -> Interval:
    return Interval(instant(low, "--from", job), instant(high, "--to", job))


def _live_store(job: Job) -> StateStore:
    return open_store(job.state, job.name, clock=real_clock)


def _read(
    call: JobCall,
    job: Job,
    definition: BackfillDefinition,
    now_ms: int,
    parallelism: int | None,
    pause_s: int | None,
) -> RunReport:
    call.invocation.run_id = new_run_id(real_clock())
    options = replace(options_of(call, now_ms), run_id=call.invocation.run_id)
    with bind(job=job.name, run_id=call.invocation.run_id):
        return reading.read(job, definition, options, parallelism=parallelism, pause_s=pause_s)


def _deliver(
    call: JobCall, report: RunReport, found: list[BackfillDefinition], *, is_reported: bool
) -> int:
    """Print the report of a reading like that of a run, with the backfill's id."""
    clean = redacted(report, call.invocation.redact)
    name = found[0].id if found else None
    if call.as_json:
        emit_json(report_json(clean) | {"backfill": name})
    elif not is_reported:
        emit(report_text(clean))
    return report.exit_code
