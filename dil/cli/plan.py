"""``dil plan``: what a run would do now, and why. Changes no state, starts no JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.stdout import emit, emit_json, results_only
from dil.errors import ConfigError
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.planning import SavedPlan


@click.command(short_help="Show what a run would do now; start nothing.")
@job_command()
@now_option
@click.option(
    "--all", "everything", is_flag=True, help="Show every work unit, and why others are not due."
)
@click.option(
    "--out",
    "out_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the plan in a file; `dil run --plan FILE` runs exactly that.",
)
def plan(call: JobCall, *, now: str | None, everything: bool, out_file: Path | None) -> int:
    """Show which work units a run would take now, with the arithmetic of each window."""
    with results_only():
        now_ms = call.invocation.now(now)
        job = call.job(secrets=False)
        # Imported here: a job file that is wrong is told at once.
        from dil.run.plan_builder import plan_job

        saved = plan_job(job, now_ms=now_ms, clock=real_clock, explain=everything)
        if out_file is not None:
            _keep(saved, out_file)
    planned = saved.plan
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
    if out_file is not None:
        flags = ", with the same -D flags," if call.definitions else ""
        command = f"dil run {call.job_file} --plan {out_file}"
        emit(f"\nKept in {out_file}: {command}{flags} does exactly this.\n")
    return 0


def _keep(saved: SavedPlan, out_file: Path) -> None:
    from dil.planning.plan_file import encode_plan, is_plan

    try:
        if out_file.exists() and not is_plan(out_file.read_bytes()):
            raise ConfigError.single(
                "--out",
                f'"{out_file}" is there and is no plan, so it is not written over',
                "Name another file.",
            )
        out_file.write_bytes(encode_plan(saved))
    except OSError as error:
        raise ConfigError.single(
            "--out",
            f'"{out_file}" cannot be written: {error.strerror}',
            "Name a file in an existing folder that this user may write to.",
        ) from None
