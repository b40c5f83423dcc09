"""``dil compact``: small files put together, and old versions of tables deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

import click

from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit, emit_json, results_only
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.operator.compaction import Outcome, Proposal

_BINS_SHOWN = 20


@click.command(short_help="Put small files together; delete old versions of a table.")
@job_command()
@click.option(
    "--target-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    help="How large files should be; those of less than half are put together. Unset: what the job"
    " writes, ms.writer.target.bytes.",
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
    help="Of a Delta or Iceberg table: delete the files that only versions need which were replaced"
    " more than N hours ago. They cannot be read or gone back to any more.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
def compact(
    call: JobCall,
    *,
    target_bytes: int | None,
    max_bytes: int | None,
    vacuum_hours: int | None,
    dry_run: bool,
) -> int:
    """Put the small files of a job's dataset together into larger ones. Keeps every row.

    Works under the job's lease: not while a run is under way, and no run begins meanwhile (exit
    code 3). Killed at any moment, it leaves the dataset with the same rows.
    """
    with results_only():
        job = call.job(secrets=False)
        # Imported here: a job file that is wrong is told at once.
        from dil.operator.compaction import Wish
        from dil.operator.compaction import compact as put_together

        wish = Wish(
            clock=real_clock,
            target_bytes=target_bytes,
            max_bytes=max_bytes,
            vacuum_hours=vacuum_hours,
            is_look=dry_run,
        )
        outcome = put_together(job, wish)
    if call.as_json:
        emit_json(_json(job, outcome, is_look=dry_run))
    else:
        _text(job, outcome, is_look=dry_run)
    return 0


def _json(job: Job, outcome: Outcome, *, is_look: bool) -> dict[str, object]:
    proposal = outcome.proposal
    return {
        "job": job.name,
        "act": outcome.act_id,
        "dry_run": is_look,
        "target_bytes": proposal.target_bytes,
        "live": proposal.live,
        "small": proposal.files,
        "bytes": proposal.bytes,
        "groups": [
            {
                "files": [file.uri for file in each.files],
                "bytes": each.bytes,
                "rows": sum(file.rows for file in each.files),
                "signature": each.signature or None,
                "timelabel": each.files[0].timelabel,
            }
            for each in proposal.bins
        ],
        "left": proposal.left,
        "added": [file.uri for file in outcome.added],
        "removed": outcome.removed,
        "finished": outcome.finished,
        "vacuumed": list(outcome.vacuumed),
        "notes": [*proposal.notes, *outcome.notes],
    }


def _text(job: Job, outcome: Outcome, *, is_look: bool) -> None:
    for line in _lines(job, outcome, is_look=is_look):
        emit(f"{line}\n")


def _lines(job: Job, outcome: Outcome, *, is_look: bool) -> Iterator[str]:
    from dil.observe.progress import counted

    proposal = outcome.proposal
    yield f"{job.name}  {counted(proposal.live, 'live file')}"
    if outcome.finished:
        yield f"  the publish of {outcome.finished} was finished first"
    yield f"  {_summary(outcome, is_look=is_look)}"
    if is_look:
        yield from _groups(proposal)
    if proposal.left:
        yield f"  {counted(proposal.left, 'group')} beyond --max-bytes, for the next time"
    if outcome.vacuumed:
        verb = "would be deleted" if is_look else "deleted"
        yield f"  {counted(len(outcome.vacuumed), 'file')} of old versions {verb}"
    for note in (*proposal.notes, *outcome.notes):
        yield f"  note: {note}"
    if is_look:
        yield "nothing was changed"


def _summary(outcome: Outcome, *, is_look: bool) -> str:
    from dil.observe.progress import counted, human_bytes

    proposal = outcome.proposal
    if not proposal.bins:
        return "nothing to put together"
    verb = "would be put" if is_look else "put"
    new = len(proposal.bins) if is_look else len(outcome.added)
    small = counted(proposal.files, "small file")
    return f"{small} ({human_bytes(proposal.bytes)}) {verb} together into {new}"


def _groups(proposal: Proposal) -> Iterator[str]:
    from dil.observe.progress import human_bytes

    for each in proposal.bins[:_BINS_SHOWN]:
        folder = unquote(each.files[0].uri.rpartition("/")[0])
        yield f"    {len(each.files):>6} files  {human_bytes(each.bytes):>10}  {folder}"
    if len(proposal.bins) > _BINS_SHOWN:
        yield f"    and {len(proposal.bins) - _BINS_SHOWN} more"
