"""Decides how a run's results change the dataset and the state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import UNSET

from dil.errors import ConversionError
from dil.model.dataset import (
    Commit,
    Move,
    PublishedFile,
    RunWork,
    UnitRows,
    WorkUnitOutcome,
    source_name,
)
from dil.model.destination import Layout
from dil.model.job import Job, PublishingSpec, PublishMode
from dil.model.report import MergedRows
from dil.model.task import RunContext, StagedFile, TaskReport
from dil.model.timelabels import label_folder
from dil.model.work_unit import WorkUnit, unit_hash
from dil.publishing.destination import destination_for
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
    unit_hash_in,
)
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.storage import Filesystem

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finished:
    """One work unit that ran or was adopted, with its report."""

    work_unit: WorkUnit
    report: TaskReport


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A staged file with rows of several work units, and its absolute target folder.

    ``units`` are the pieces of the file: which rows belong to which work unit, in the order of the
    rows. If the work units are unknown, ``units`` is empty.
    """

    file: StagedFile
    folder: str
    units: tuple[UnitRows, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishableResults:
    """A run's results in the form for publishing.

    ``rewritten`` are staged files with the remaining rows of live files, and ``replaced`` are live
    files to remove. Both occur if rows are merged, if live files get other types, and if only some
    rows of live files are replaced. ``shared`` are files that several work units share;
    ``finished`` no longer lists the files that these work units staged. ``merged`` counts the rows
    that a merge changed, and ``changelog`` are staged files with the changed rows, None if the job
    keeps no changelog.
    """

    finished: Sequence[Finished]
    rewritten: Sequence[StagedFile] = ()
    replaced: Sequence[PublishedFile] = ()
    shared: Sequence[SharedFile] = ()
    merged: MergedRows | None = None
    changelog: Sequence[StagedFile] | None = None


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """The destination of a run: the run's id and folder, the live files there, and the clocks.

    ``untracked`` are ``publisher.untracked_files``. ``system_time`` and ``horizon`` are epoch ms
    UTC, see Commit. ``known_schema`` is the dataset's recorded schema, ``quarantined`` are
    ``publisher.quarantined_files``, ``late`` are ``late_files.late_rows_there``. ``missed`` are
    work units that the run only records. ``is_whole`` is true if the run read all rows of the
    source. ``begins_changelog`` is true if the changelog starts with all live rows.
    """

    run_id: str
    output_dir: str
    live: Sequence[PublishedFile]
    untracked: Sequence[PublishedFile]
    system_time: int
    horizon: int
    left_low: int | None = None
    known_schema: str = ""
    quarantined: Sequence[str] = ()
    late: Sequence[str] = ()
    missed: Sequence[WorkUnit] = ()
    is_whole: bool = False
    begins_changelog: bool = False


def decide(
    job: Job, target: PublishTarget, results: PublishableResults, filesystem: Filesystem
) -> Commit:
    """Return a run's commit: files of successful work units, and outcomes of all units that ran.

    In mode ``window_replace`` the files of each successful work unit replace all files that earlier
    runs published for the unit's signature; in mode ``replace`` they replace all live files. Files
    whose rows are already at the destination are left out (``Destination.spared``).
    """
    finished = results.finished
    destination = destination_for(job.publishing, filesystem)
    uri = destination.uri
    good = [each for each in finished if each.report.failure is None]
    moves = (
        *(move for each in good for move in _moves(job, target, each, uri)),
        *_rewritten_moves(job, target, results.rewritten, uri),
        *shared_moves(job, target.run_id, results.shared, uri),
    )
    keys: dict[str, str] = {}
    again = {move.target.uri for move in moves if move.target.is_dump}  # names written once more
    late_removes = _late_removes(job.publishing.mode, target, good)
    touches_late = job.publishing.has_side_table or late_removes
    commit = Commit(
        run_id=target.run_id,
        config_digest=job.digest,
        source_name=source_name(job.name),
        moves=moves,
        removes=tuple(
            dict.fromkeys(
                (
                    *_removes(job.publishing, target, good),
                    *(file for file in target.live if file.uri in again),
                    *results.replaced,
                    *(destination.expired(target.system_time) if target.live else ()),
                    *_missing(job.publishing, destination, target, finished),
                )
            )
        ),
        schema=_schema(job.publishing.mode, target, good),
        system_time=target.system_time,
        horizon=target.horizon,
        run=RunWork(
            outcomes=tuple(_outcome(each, keys) for each in finished),
            skipped=tuple(map(_skipped, target.missed)),
            left_low=target.left_low,
            watermarks=job.state.enabled,
        ),
        quarantine=tuple(
            move for each in good for move in _quarantine_moves(job, target, each, filesystem)
        ),
        quarantine_removes=(
            *_quarantine_removes(job.publishing.mode, target, good),
            *late_removes,
        ),
        late_dir=filesystem.uri(late_dir(job.publishing)) if touches_late else "",
    )
    return destination.spared(_with_changelog(job, target, results, commit, filesystem))


def _with_changelog(
    job: Job,
    target: PublishTarget,
    results: PublishableResults,
    commit: Commit,
    filesystem: Filesystem,
) -> Commit:
    """Return a commit; if it changes any file, with the changelog of its rows."""
    if results.changelog is None or not (commit.moves or commit.removes):
        return commit
    folder = changelog_dir(job.publishing)
    moves = []
    for number, file in enumerate(results.changelog):
        extension = file.path.rpartition(".")[2]
        name = final_name(target.run_id, CHANGES, number, rows=None, extension=extension)
        moves.append(_move(file, filesystem.uri(f"{folder}/{name}"), target, None))
    return replace(
        commit,
        quarantine=(*commit.quarantine, *moves),
        changelog_dir=filesystem.uri(folder),
        begins_changelog=target.begins_changelog,
    )


def recorded_schema(store: StateStore) -> str:
    """Return the chain's record of the schema of the rows published so far (rule U20).

    The schema has one line per column; it is empty if it is unknown.
    """
    block = next(iter(store.blocks_of_kind("SetDataSchema")), None)
    event = None if block is None else block["event"]
    schema = event.get("schema") if isinstance(event, Mapping) else None
    return schema if isinstance(schema, str) else ""


def unchanged_labels(finished: Sequence[Finished], commit: Commit) -> tuple[str, ...]:
    """Return the labels that a run read and a commit does not change, in order of time."""
    moved = {move.source for move in commit.moves}
    read = {
        file.timelabel or each.work_unit.timelabel or ""
        for each in finished
        if each.report.failure is None
        for file in each.report.files
        if file.path not in moved
    }
    files = (*(move.target for move in commit.moves), *commit.removes)
    touched = {file.timelabel for file in files}
    return tuple(sorted(filter(None, read - touched)))


def _skipped(unit: WorkUnit) -> WorkUnitOutcome:
    return WorkUnitOutcome(
        signature=unit.signature,
        unit_key=unit.unit_key,
        low=unit.partition.low,
        expected_high=unit.high,
        high=None,
        attempts=0,
        timelabel=unit.timelabel,
    )


def _schema(mode: PublishMode, target: PublishTarget, good: Sequence[Finished]) -> str:
    """Return a schema that all live files fit, including files of earlier runs that stay."""
    texts = [each.report.schema for each in good if each.report.schema]
    known = "" if mode is PublishMode.REPLACE else target.known_schema
    if not texts or {known, *texts} == {known}:
        return known if texts else ""
    from dil.types.schema_text import merged_text  # Arrow costs a run time that does not need it

    try:
        return merged_text(known, texts)
    except ConversionError as error:
        log.warning(
            "the dataset's schema is recorded with the schema of this run only: %s", error.message
        )
        return texts[0]


def _quarantine_moves(
    job: Job, target: PublishTarget, each: Finished, filesystem: Filesystem
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


def _quarantine_removes(
    mode: PublishMode, target: PublishTarget, good: Sequence[Finished]
) -> tuple[str, ...]:
    """Return earlier runs' files of put-aside rows, if this run read these rows again."""
    older = (uri for uri in target.quarantined if f"/part-{target.run_id}-" not in uri)
    if mode is PublishMode.REPLACE:
        return tuple(older)
    if mode is PublishMode.WINDOW_REPLACE:
        hashes = tuple(f"-{each.work_unit.hash}-" for each in good)
        return tuple(uri for uri in older if _names_one(uri, hashes))
    return ()


def _late_removes(
    mode: PublishMode, target: PublishTarget, good: Sequence[Finished]
) -> tuple[str, ...]:
    """Return earlier runs' files of late rows, if this run read these rows again.

    Under merge and append, a reading may begin at the end of an earlier run's reading. Then the
    late rows beside the dataset were not read again, and stay.
    """
    older = (uri for uri in target.late if f"/part-{target.run_id}-" not in uri)
    if mode is PublishMode.REPLACE:
        return tuple(older)
    reads_whole = mode is PublishMode.WINDOW_REPLACE
    units = (each.work_unit for each in good)
    hashes = {unit.hash for unit in units if reads_whole or unit.low <= unit.partition.low}
    return tuple(uri for uri in older if unit_hash_in(uri) in hashes)


def _moves(
    job: Job, target: PublishTarget, each: Finished, uri: Callable[[str], str]
) -> Iterable[Move]:
    for number, file in enumerate(each.report.files):
        if file.name:
            path = dump_path(job.publishing, file.name)
        else:
            path = _path(job, target.run_id, target.output_dir, each.work_unit, number, file)
        yield _move(file, uri(path), target, each.work_unit)


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


def _path(job: Job, run_id: str, output: str, unit: WorkUnit, number: int, file: StagedFile) -> str:
    folder = folder_of(job, output, unit, file)
    return join(folder, _name(job, run_id, unit.hash, number, file))


def folder_of(job: Job, output: str, unit: WorkUnit, file: StagedFile) -> str:
    """Return the absolute folder for a work unit's file of rows."""
    label = file.timelabel or unit.timelabel
    is_by_label = job.publishing.layout is Layout.TIMELABEL
    return join(output, file.folder or (label_folder(label) if is_by_label and label else ""))


def _rewritten_moves(
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


def _removes(
    spec: PublishingSpec, target: PublishTarget, good: Sequence[Finished]
) -> tuple[PublishedFile, ...]:
    if spec.mode is PublishMode.REPLACE:
        return (*target.live, *target.untracked)
    if spec.mode is PublishMode.WINDOW_REPLACE:
        redone = {each.work_unit.signature: each.work_unit.timelabel for each in good}
        of_label = spec.warehouse is not None and spec.warehouse.keeps_readings
        hashes = tuple(f"-{each.work_unit.hash}-" for each in good)
        lost = (file for file in target.untracked if _names_one(file.uri, hashes))
        replaced = (
            file
            for file in target.live
            if file.signature in redone
            and (not of_label or file.timelabel == redone[file.signature])
        )
        return (*replaced, *lost)
    return ()


def _missing(
    spec: PublishingSpec,
    destination: Destination,
    target: PublishTarget,
    finished: Sequence[Finished],
) -> tuple[PublishedFile, ...]:
    """Return the file, if any, that tells a database to remove the rows the run did not read."""
    is_whole = target.is_whole and all(each.report.failure is None for each in finished)
    is_wanted = spec.merge is not None and spec.merge.deletes_missing and is_whole
    missing = destination.missing() if is_wanted else None
    return () if missing is None else (missing,)


def _names_one(uri: str, hashes: tuple[str, ...]) -> bool:
    name = uri.rpartition("/")[2]
    return any(each in name for each in hashes)


def _outcome(each: Finished, keys: dict[str, str]) -> WorkUnitOutcome:
    """Return a work unit's outcome for state; ``keys`` are texts that several outcomes share."""
    unit, report = each.work_unit, each.report
    return WorkUnitOutcome(
        signature=unit.signature,
        unit_key=keys.setdefault(unit.unit_key, unit.unit_key),
        low=unit.partition.low,
        expected_high=unit.high,
        high=unit.high if report.failure is None else None,
        attempts=report.attempts,
        error="" if report.failure is None else report.failure.error,
        timelabel=unit.timelabel,
    )
