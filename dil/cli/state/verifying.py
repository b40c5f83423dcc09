"""``dil state verify``: recheck what is remembered, and the published files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_json
from dil.errors import WriteError
from dil.run.failing import FAILED

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.state.blocks.verification import ChainReport


@click.command(short_help="Recheck the chain, the work units, the published files.")
@job_command()
def verify(call: JobCall) -> int:
    """Recheck the chain, the work units and the published files; exit code 1 when not sound."""
    with opened(call) as (job, store):
        from dil.state.blocks.verification import verify_chain

        # Rows that were loaded into a database lie in no file whose size could be compared.
        is_of_files = job.publishing.warehouse is None
        size_of = _size_on(job.publishing.final_dir) if is_of_files else None
        report = verify_chain(store, size_of=size_of)
    if call.as_json:
        emit_json(
            {
                "job": job.name,
                "sound": report.is_sound,
                "blocks": report.blocks,
                "files": report.files,
                "problems": list(report.problems),
            }
        )
    else:
        _verify_text(job, report)
    return 0 if report.is_sound else FAILED


def _size_on(place: str) -> Callable[[str], int | None]:
    """Return what finds a file's size by its URI; each folder is listed once."""
    from dil.storage import filesystem_for

    filesystem = filesystem_for(place)

    @functools.cache
    def sizes(folder: str) -> dict[str, int]:
        return {info.path: info.size for info in filesystem.files(folder)}

    def size_of(uri: str) -> int | None:
        try:
            path = filesystem.path_of(uri)
        except WriteError:  # of another store, where the job published before
            return None
        return sizes(path.rpartition("/")[0]).get(path)

    return size_of


def _verify_text(job: Job, report: ChainReport) -> None:
    from dil.observe.logs import one_line

    counts = f"blocks {report.blocks:,}, live files {report.files:,}"
    if report.is_sound and not report.blocks:
        emit(f"{job.name}  nothing to verify: no run has recorded a block yet\n")
        return
    if report.is_sound:
        emit(f"{job.name}  SOUND  {counts}\n")
        return
    emit(f"{job.name}  NOT SOUND  problems {len(report.problems):,}, {counts}\n")
    for problem in report.problems:
        if not emit(f"  {one_line(problem)}\n"):
            return
    emit(
        "  V20 concerns a published file: restore it. All else concerns the state store: keep it "
        "as it is now,\n  and restore an earlier copy in its place.\n"
    )
