"""Builds a run's commit: how its results change the dataset and the state."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dil.errors import ConversionError
from dil.model.dataset import Commit, PublishedFile, RunWork, WorkUnitOutcome, source_name
from dil.model.job import Job, PublishingSpec, PublishMode
from dil.publishing.destination import destination_for
from dil.publishing.layout import changelog_dir, late_dir, unit_hash_in
from dil.publishing.moves import (
    changelog_moves,
    quarantine_moves,
    rewritten_moves,
    shared_moves,
    unit_moves,
)
from dil.publishing.results import FinishedUnit, PublishableResults, PublishTarget
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.storage import Filesystem

log = logging.getLogger(__name__)


def build_commit(
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
        *(move for each in good for move in unit_moves(job, target, each, uri)),
        *rewritten_moves(job, target, results.rewritten, uri),
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
            skipped=tuple(
                WorkUnitOutcome.of(unit, high=None, attempts=0) for unit in target.missed
            ),
            left_low=target.left_low,
            watermarks=job.state.enabled,
        ),
        quarantine=tuple(
            move for each in good for move in quarantine_moves(job, target, each, filesystem)
        ),
        quarantine_removes=(
            *_quarantine_removes(job.publishing.mode, target, good),
            *late_removes,
        ),
        late_dir=filesystem.uri(late_dir(job.publishing)) if touches_late else "",
    )
    return destination.spared(_with_changelog(job, target, results, commit, filesystem))


def _removes(
    spec: PublishingSpec, target: PublishTarget, good: Sequence[FinishedUnit]
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
    finished: Sequence[FinishedUnit],
) -> tuple[PublishedFile, ...]:
    """Return the file, if any, that tells a database to remove the rows the run did not read."""
    has_all_rows = target.has_all_rows and all(each.report.failure is None for each in finished)
    is_wanted = spec.merge is not None and spec.merge.deletes_missing and has_all_rows
    missing = destination.missing() if is_wanted else None
    return () if missing is None else (missing,)


def _quarantine_removes(
    mode: PublishMode, target: PublishTarget, good: Sequence[FinishedUnit]
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
    mode: PublishMode, target: PublishTarget, good: Sequence[FinishedUnit]
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


def _names_one(uri: str, hashes: tuple[str, ...]) -> bool:
    name = uri.rpartition("/")[2]
    return any(each in name for each in hashes)


def _schema(mode: PublishMode, target: PublishTarget, good: Sequence[FinishedUnit]) -> str:
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


def _outcome(each: FinishedUnit, keys: dict[str, str]) -> WorkUnitOutcome:
    """Return a work unit's outcome for state; ``keys`` are texts that several outcomes share."""
    unit, failure, key = each.work_unit, each.report.failure, each.work_unit.unit_key
    return WorkUnitOutcome.of(
        unit,
        high=unit.high if failure is None else None,
        attempts=each.report.attempts,
        error="" if failure is None else failure.error,
        unit_key=keys.setdefault(key, key),  # not interned: Python 3.12 never frees such texts
    )


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
    moves = changelog_moves(job, target, results.changelog, filesystem)
    return replace(
        commit,
        quarantine=(*commit.quarantine, *moves),
        changelog_dir=filesystem.uri(changelog_dir(job.publishing)),
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


def unchanged_labels(finished: Sequence[FinishedUnit], commit: Commit) -> tuple[str, ...]:
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
