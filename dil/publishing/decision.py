"""What a run's results mean for the dataset and for state; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dil.model.dataset import Commit, Move, PublishedFile, WorkUnitOutcome, source_name
from dil.model.job import Job, PublishMode
from dil.model.task import TaskReport
from dil.model.work_unit import WorkUnit
from dil.publishing.layout import final_name
from dil.storage import Filesystem


@dataclass(frozen=True, slots=True)
class Finished:
    """One work unit that ran, or was adopted, with its report."""

    work_unit: WorkUnit
    report: TaskReport


@dataclass(frozen=True, slots=True)
class Target:
    """Where a run publishes: its id, its folder, what is live there, and the clocks.

    ``strays`` are files in the folder that no manifest knows, see ``publisher.strays``.
    ``system_time`` and ``horizon`` are epoch ms UTC, see Commit.
    """

    run_id: str
    output_dir: str
    live: Sequence[PublishedFile]
    strays: Sequence[PublishedFile]
    system_time: int
    horizon: int
    left_low: int | None = None


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
        removes=_removes(job.publishing.mode, target, good),
        outcomes=tuple(_outcome(each) for each in finished),
        schema=next((each.report.schema for each in good if each.report.schema), ""),
        system_time=target.system_time,
        horizon=target.horizon,
        left_low=target.left_low,
        watermarks=job.state.enabled,
    )


def _moves(job: Job, target: Target, each: Finished, filesystem: Filesystem) -> Iterable[Move]:
    for number, file in enumerate(each.report.files):
        name = final_name(
            target.run_id,
            each.work_unit.hash,
            number,
            rows=file.rows if job.writing.record_count_in_names else None,
            extension=file.path.rpartition(".")[2],
        )
        yield Move(
            source=file.path,
            target=PublishedFile(
                uri=filesystem.uri(f"{target.output_dir}/{name}"),
                signature=each.work_unit.signature,
                rows=file.rows,
                bytes=file.bytes,
                sha256=file.sha256,
                run_id=target.run_id,
                timelabel=each.work_unit.timelabel,
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
