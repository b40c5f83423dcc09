"""``dil plan``: what a run would do now, and why. Writes nothing, starts no JVM."""

from __future__ import annotations

import click

from dil.cli.invocation import real_clock
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.stdout import emit, emit_json, results_only


@click.command()
@job_command()
@now_option
@click.option(
    "--all", "everything", is_flag=True, help="Show every work unit, and why others are not due."
)
def plan(call: JobCall, *, now: str | None, everything: bool) -> int:
    """Show which work units a run would take now, with the arithmetic of each window."""
    with results_only():
        now_ms = call.invocation.now(now)
        job = call.job(secrets=False)
        # Imported here: a job file that is wrong is told at once.
        from dil.job import plan_job

        planned = plan_job(job, now_ms=now_ms, clock=real_clock, explain=everything)
    from dil.observe.plan_view import plan_json, plan_text

    if call.as_json:
        emit_json(plan_json(planned, job))
        return 0
    from dil.planning.explanation import arithmetic, skip_reason

    text = plan_text(
        planned,
        job,
        arithmetic=lambda work_unit: arithmetic(work_unit, planned),
        skip_reason=lambda skip: skip_reason(skip, planned),
        everything=everything,
    )
    emit(text)
    return 0
