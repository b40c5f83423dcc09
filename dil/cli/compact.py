"""``dil compact``: compacts small files, and deletes old versions of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

import click

from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit_json, emit_lines, results_only
from dil.observe.progress import counted, human_bytes
from dil.operator.compaction import CompactionRequest, CompactionResult
from dil.operator.compaction import compact as compact_files
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.job import Job

_GROUPS_SHOWN = 20


@click.command()
@job_command()
@click.option(
    "--target-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    help="How large files should be; files of less than half are put together. Unset: "
    "ms.writer.target.bytes.",
)
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    help="Read no more than N bytes of files now; call it again for the rest.",
)
@click.option(
    "--vacuum-hours",
    metavar="N",
    type=click.IntRange(min=0),
    help="For a Delta or Iceberg table: delete files that only versions need which were replaced "
    "more than N hours ago. You cannot read these versions, or go back to them, any more.",
)
@click.option("--dry-run", is_flag=True, help="Only show which files would be put together.")
def compact(
    call: JobCall,
    *,
    target_bytes: int | None,
    max_bytes: int | None,
    vacuum_hours: int | None,
    dry_run: bool,
) -> int:
    """Put the small files of a job's dataset together into larger ones; all rows stay.

    The command takes the job's lease: it ends with exit code 3 while a run is active, and no run
    begins meanwhile. If it is killed at any moment, the dataset has the same rows.
    """
    with results_only():
        job = call.job(secrets=False)
        request = CompactionRequest(
            clock=real_clock,
            target_bytes=target_bytes,
            max_bytes=max_bytes,
            vacuum_hours=vacuum_hours,
            is_dry_run=dry_run,
        )
        result = compact_files(job, request)
    if call.as_json:
        emit_json(_json(job, result, is_dry_run=dry_run))
    else:
        emit_lines(_lines(job, result, is_dry_run=dry_run))
    return 0


def _json(job: Job, result: CompactionResult, *, is_dry_run: bool) -> dict[str, object]:
    plan = result.plan
    return {
        "job": job.name,
        "act": result.act_id,
        "dry_run": is_dry_run,
        "target_bytes": plan.target_bytes,
        "live": plan.live,
        "small": plan.files,
        "bytes": plan.bytes,
        "groups": [
            {
                "files": [file.uri for file in each.files],
                "bytes": each.bytes,
                "rows": sum(file.rows for file in each.files),
                "signature": each.signature or None,
                "timelabel": each.files[0].timelabel,
            }
            for each in plan.groups
        ],
        "left": plan.left,
        "added": [file.uri for file in result.added],
        "removed": result.removed,
        "finished": result.finished,
        "vacuumed": list(result.vacuumed),
        "notes": [*plan.notes, *result.notes],
    }


def _lines(job: Job, result: CompactionResult, *, is_dry_run: bool) -> Iterator[str]:
    plan = result.plan
    yield f"{job.name}  {counted(plan.live, 'live file')}"
    if result.finished:
        yield f"  the publish of {result.finished} was finished first"
    if not plan.groups:
        yield "  nothing to put together"
    else:
        verb = "would be put" if is_dry_run else "put"
        new = len(plan.groups) if is_dry_run else len(result.added)
        small = counted(plan.files, "small file")
        yield f"  {small} ({human_bytes(plan.bytes)}) {verb} together into {new}"
    if is_dry_run:
        for each in plan.groups[:_GROUPS_SHOWN]:
            folder = unquote(each.files[0].uri.rpartition("/")[0])
            yield f"    {len(each.files):>6} files  {human_bytes(each.bytes):>10}  {folder}"
        if len(plan.groups) > _GROUPS_SHOWN:
            yield f"    and {len(plan.groups) - _GROUPS_SHOWN} more"
    if plan.left:
        yield f"  {counted(plan.left, 'group')} beyond --max-bytes: call the command again"
    if result.vacuumed:
        verb = "would be deleted" if is_dry_run else "deleted"
        yield f"  {counted(len(result.vacuumed), 'file')} of old versions {verb}"
    for note in (*plan.notes, *result.notes):
        yield f"  note: {note}"
    if is_dry_run:
        yield "nothing was changed"
