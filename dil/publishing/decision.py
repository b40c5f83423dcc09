"""What a run's results mean for the dataset and for state; pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dil.errors import ConversionError
from dil.model.dataset import Commit, Move, PublishedFile, WorkUnitOutcome, source_name
from dil.model.job import Job, PublishMode
from dil.model.task import StagedFile, TaskReport
from dil.model.work_unit import WorkUnit
from dil.publishing.layout import dump_path, final_name, quarantine_dir, refused_dir
from dil.storage import Filesystem

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finished:
    """One work unit that ran, or was adopted, with its report."""

    work_unit: WorkUnit
    report: TaskReport


@dataclass(frozen=True, slots=True)
class Target:
    """Where a run publishes: its id, its folder, what is live there, and the clocks.

    ``strays`` are files in the folder that no manifest knows, see ``publisher.strays``.
    ``system_time`` and ``horizon`` are epoch ms UTC, see Commit. ``known_schema`` is the dataset's
    recorded schema, ``quarantined`` are ``publisher.quarantined_files``.
    """

    run_id: str
    output_dir: str
    live: Sequence[PublishedFile]
    strays: Sequence[PublishedFile]
    system_time: int
    horizon: int
    left_low: int | None = None
    known_schema: str = ""
    quarantined: Sequence[str] = ()


def decide(
    job: Job, target: Target, finished: Sequence[Finished], filesystem: Filesystem
) -> Commit:
    """Return the commit of a run: files of what succeeded, outcomes of what succeeded or failed.

    With mode ``window_replace`` the files of each successful work unit take the place of all that
    earlier runs published for its signature; with ``replace`` they take the place of everything.
    """
    good = [each for each in finished if each.report.failure is None]
    moves = tuple(move for each in good for move in _moves(job, target, each, filesystem))
    return Commit(
        run_id=target.run_id,
        config_digest=job.digest,
        source_name=source_name(job.name),
        moves=moves,
        removes=(*_removes(job.publishing.mode, target, good), *_replaced(target, moves)),
        outcomes=tuple(_outcome(each) for each in finished),
        schema=_schema(job.publishing.mode, target, good),
        system_time=target.system_time,
        horizon=target.horizon,
        left_low=target.left_low,
        watermarks=job.state.enabled,
        quarantine=tuple(
            move for each in good for move in _quarantine_moves(job, target, each, filesystem)
        ),
        quarantine_removes=_quarantine_removes(job.publishing.mode, target, good),
    )


def _schema(mode: PublishMode, target: Target, good: Sequence[Finished]) -> str:
    """Return the schema that the live files fit, those of earlier runs too unless they go."""
    texts = [each.report.schema for each in good if each.report.schema]
    known = "" if mode is PublishMode.REPLACE else target.known_schema
    if not texts or {known, *texts} == {known}:
        return known if texts else ""
    from dil.model.schema_text import merged_text  # Arrow costs a run that needs none of it

    try:
        return merged_text(known, texts)
    except ConversionError as error:
        log.warning("the dataset's schema is recorded as this run has it: %s", error.message)
        return texts[0]


def _quarantine_moves(
    job: Job, target: Target, each: Finished, filesystem: Filesystem
) -> Iterable[Move]:
    """Move rows that broke the contract, and rows that the receiver refused."""
    for folder, files in (
        (quarantine_dir(job.publishing), each.report.quarantined),
        (refused_dir(job.publishing), each.report.refused),
    ):
        for number, file in enumerate(files):
            name = final_name(
                target.run_id, each.work_unit.hash, number, rows=None, extension="json"
            )
            yield _move(file, f"{folder}/{name}", target, each, filesystem)


def _quarantine_removes(
    mode: PublishMode, target: Target, good: Sequence[Finished]
) -> tuple[str, ...]:
    """Return the older files of rows that this run read again; never its own."""
    older = (uri for uri in target.quarantined if f"/part-{target.run_id}-" not in uri)
    if mode is PublishMode.REPLACE:
        return tuple(older)
    if mode is PublishMode.WINDOW_REPLACE:
        hashes = tuple(f"-{each.work_unit.hash}-" for each in good)
        return tuple(uri for uri in older if _names_one(uri, hashes))
    return ()


def _moves(job: Job, target: Target, each: Finished, filesystem: Filesystem) -> Iterable[Move]:
    for number, file in enumerate(each.report.files):
        if file.name:
            yield _move(file, dump_path(job.publishing, file.name), target, each, filesystem)
            continue
        name = final_name(
            target.run_id,
            each.work_unit.hash,
            number,
            rows=file.rows if job.writing.record_count_in_names else None,
            extension=file.path.rpartition(".")[2],
        )
        yield _move(file, f"{target.output_dir}/{name}", target, each, filesystem)


def _move(
    file: StagedFile, path: str, target: Target, each: Finished, filesystem: Filesystem
) -> Move:
    return Move(
        source=file.path,
        target=PublishedFile(
            uri=filesystem.uri(path),
            signature=each.work_unit.signature,
            rows=file.rows,
            bytes=file.bytes,
            sha256=file.sha256,
            run_id=target.run_id,
            timelabel=each.work_unit.timelabel,
            is_dump=bool(file.name),
        ),
    )


def _removes(
    mode: PublishMode, target: Target, good: Sequence[Finished]
) -> tuple[PublishedFile, ...]:
    if mode is PublishMode.REPLACE:
        return (*target.live, *target.strays)
    if mode is PublishMode.WINDOW_REPLACE:
        redone = {each.work_unit.signature for each in good}
        hashes = tuple(f"-{each.work_unit.hash}-" for each in good)
        lost = (file for file in target.strays if _names_one(file.uri, hashes))
        return (*(file for file in target.live if file.signature in redone), *lost)
    return ()


def _replaced(target: Target, moves: Sequence[Move]) -> tuple[PublishedFile, ...]:
    """Return the dumped files whose names this run writes again."""
    again = {move.target.uri for move in moves if move.target.is_dump}
    return tuple(file for file in target.live if file.uri in again) if again else ()


def _names_one(uri: str, hashes: tuple[str, ...]) -> bool:
    name = uri.rpartition("/")[2]
    return any(each in name for each in hashes)


def _outcome(each: Finished) -> WorkUnitOutcome:
    unit, report = each.work_unit, each.report
    return WorkUnitOutcome(
        signature=unit.signature,
        unit_key=unit.unit_key,
        low=unit.partition.low,
        expected_high=unit.high,
        high=unit.high if report.failure is None else None,
        attempts=report.attempts,
        error="" if report.failure is None else report.failure.error,
        timelabel=unit.timelabel,
    )
