"""Gives staged files their final names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import UNSET

from dil.model.dataset import Move, PublishedFile
from dil.model.destination import Layout
from dil.model.job import Job
from dil.model.task import RunContext, StagedFile
from dil.model.timelabels import label_folder
from dil.model.work_unit import WorkUnit, unit_hash
from dil.publishing.layout import (
    CHANGES,
    MERGED,
    SHARED,
    changelog_dir,
    dump_path,
    final_name,
    join,
    late_dir,
    output_dir,
    quarantine_dir,
    refused_dir,
)
from dil.publishing.results import FinishedUnit, PublishTarget, SharedFile
from dil.storage import Filesystem


def unit_moves(
    job: Job, target: PublishTarget, each: FinishedUnit, uri: Callable[[str], str]
) -> Iterable[Move]:
    """Yield the moves of a work unit's files."""
    for number, file in enumerate(each.report.files):
        if file.name:
            path = dump_path(job.publishing, file.name)
        else:
            path = _path(job, target.run_id, target.output_dir, each.work_unit, number, file)
        yield _move(file, uri(path), target, each.work_unit)


def rewritten_moves(
    job: Job, target: PublishTarget, rewritten: Iterable[StagedFile], uri: Callable[[str], str]
) -> Iterable[Move]:
    """Yield the moves of files that hold rows of many work units and belong to none of them."""
    for number, file in enumerate(rewritten):
        name = _name(job, target.run_id, MERGED, number, file)
        path = join(target.output_dir, file.folder, name)
        yield _move(file, uri(path), target, None)


def shared_moves(
    job: Job, publisher_id: str, files: Iterable[SharedFile], uri: Callable[[str], str]
) -> Iterable[Move]:
    """Yield the moves of files that hold rows of several work units.

    Args:
        job: The job.
        publisher_id: The run or act that publishes the files.
        files: The files, in an order that is the same at each call.
        uri: Returns the destination's name for a file at a path.
    """
    for number, shared in enumerate(files):
        signatures = {each.signature for each in shared.units}
        signature = signatures.pop() if len(signatures) == 1 else ""
        word = unit_hash(signature) if signature else SHARED if shared.units else MERGED
        file = shared.file
        target = PublishedFile(
            uri=uri(join(shared.folder, _name(job, publisher_id, word, number, file))),
            signature=signature,
            rows=file.rows,
            bytes=file.bytes,
            sha256=file.sha256,
            run_id=publisher_id,
            timelabel=file.timelabel or None,
            units=() if signature else shared.units,
        )
        yield Move(file.path, target)


def quarantine_moves(
    job: Job, target: PublishTarget, each: FinishedUnit, filesystem: Filesystem
) -> Iterable[Move]:
    """Yield the moves of rows that broke the contract, were refused, or came late."""
    for folder, files in (
        (quarantine_dir(job.publishing), each.report.quarantined),
        (refused_dir(job.publishing), each.report.refused),
        (late_dir(job.publishing), () if each.report.late is UNSET else each.report.late),
    ):
        for number, file in enumerate(files):
            extension = file.path.rpartition(".")[2]
            name = final_name(
                target.run_id, each.work_unit.hash, number, rows=None, extension=extension
            )
            yield _move(file, filesystem.uri(f"{folder}/{name}"), target, each.work_unit)


def changelog_moves(
    job: Job, target: PublishTarget, files: Iterable[StagedFile], filesystem: Filesystem
) -> Iterable[Move]:
    """Yield the moves of files with the changed rows."""
    folder = changelog_dir(job.publishing)
    for number, file in enumerate(files):
        extension = file.path.rpartition(".")[2]
        name = final_name(target.run_id, CHANGES, number, rows=None, extension=extension)
        yield _move(file, filesystem.uri(f"{folder}/{name}"), target, None)


def check_paths(
    run: RunContext, unit: WorkUnit, files: Sequence[StagedFile], filesystem: Filesystem
) -> None:
    """Raise if a final path of a work unit's files would be too long; tasks call this.

    Raises:
        WriteError: a path would be too long.
    """
    spec = run.job.publishing
    if not spec.keeps_files:
        return
    folder = output_dir(spec, now=run.run_now, full=run.full_extract, taken=frozenset())
    for number, file in enumerate(files):
        filesystem.check_path(_path(run.job, run.run_id, folder, unit, number, file))


def folder_of(job: Job, output: str, unit: WorkUnit, file: StagedFile) -> str:
    """Return the absolute folder for a work unit's file of rows."""
    label = file.timelabel or unit.timelabel
    is_by_label = job.publishing.layout is Layout.TIMELABEL
    return join(output, file.folder or (label_folder(label) if is_by_label and label else ""))


def _path(job: Job, run_id: str, output: str, unit: WorkUnit, number: int, file: StagedFile) -> str:
    folder = folder_of(job, output, unit, file)
    return join(folder, _name(job, run_id, unit.hash, number, file))


def _name(job: Job, run_id: str, unit_hash: str, number: int, file: StagedFile) -> str:
    return final_name(
        run_id,
        unit_hash,
        number,
        rows=file.rows if job.writing.record_count_in_names else None,
        extension=file.path.rpartition(".")[2],
        prefix=job.writing.file_prefix,
    )


def _move(file: StagedFile, uri: str, target: PublishTarget, unit: WorkUnit | None) -> Move:
    return Move(
        source=file.path,
        target=PublishedFile(
            uri=uri,
            signature="" if unit is None else unit.signature,
            rows=file.rows,
            bytes=file.bytes,
            sha256=file.sha256,
            run_id=target.run_id,
            timelabel=file.timelabel or (None if unit is None else unit.timelabel),
            is_dump=bool(file.name),
        ),
    )
