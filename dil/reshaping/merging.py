"""Merges rows by primary key (rule U18): the newest rows replace older ones.

Of several rows of a key the row with the greatest delta fields stays; if the delta fields are
equal, the row that was extracted later stays. Only files that lose a row are written again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError, SourceContractError
from dil.model.report import MergedRows
from dil.model.task import StagedFile
from dil.publishing.results import FinishedUnit, PublishableResults
from dil.reshaping.changelog import ChangedFile, ChangelogWriter, StagedSource
from dil.reshaping.changes import DroppedRows, NumberedFile, changes_of, places_in_file
from dil.reshaping.files import DatasetFiles, target_of
from dil.reshaping.keys import KeyReader, is_among, merged_row_numbers
from dil.reshaping.matching import (
    BoundsReader,
    Candidate,
    FileMatch,
    KeySearch,
    Matching,
    bytes_of,
)
from dil.reshaping.merged_lateness import MergedFile, lateness_of, with_lateness
from dil.reshaping.reshaping import Reshaping, rows_of
from dil.reshaping.unifying import SchemaConflictError, has_other_types, parts_of, with_files

log = logging.getLogger(__name__)

# Opening a remote file takes as long as reading this many bytes of it.
_BYTES_OF_A_LOOK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Schemas:
    """The dataset's schema before the run, and after it."""

    known: pa.Schema
    target: pa.Schema

    @property
    def is_widened(self) -> bool:
        """Return whether a known column has another type now."""
        return has_other_types(self.known, self.target)


def merge(
    work: Reshaping, finished: Sequence[FinishedUnit], schemas: Schemas, dataset_files: DatasetFiles
) -> PublishableResults:
    """Return the results without older rows, and the live files without the rows that go.

    Raises:
        SchemaConflictError: a key is null, or it is unknown which row of a key is the newest.
        ConversionError: a column for merging is missing, or a live file cannot be rewritten.
        SourceContractError: more rows are missing at the source than may be deleted.
    """
    if work.merge is None or not (work.live or rows_of(finished)):
        return PublishableResults(finished)
    keyed = KeyReader(work.merge, schemas.target)
    keyed.check()
    writer = None
    if work.keeps_changelog:
        writer = ChangelogWriter(dataset_files, schemas.target, work.now)
        writer.refuse_own_column()
    staged = _staged(finished, dataset_files)
    rows = [each.rows for each in staged]
    changes = changes_of(rows, work.bucket_rows, dataset_files, keyed, work.stage)
    if isinstance(changes, dict):
        raise SchemaConflictError((staged[number].work, error) for number, error in changes.items())
    measured = _measured_files(work, staged)
    matching = Matching(
        dataset_files,
        keyed,
        changes,
        work.detects_missing,
        work.now,
        keeps_met=bool(measured),
        keeps_changed=writer is not None,
    )
    live, bounds = _live(work, schemas, keyed, dataset_files)
    files = _candidates(work, matching, live, bounds)
    outcomes = []
    for outcome in work.stage(matching.merge, files, bytes_of(files)):
        if isinstance(outcome, ConversionError):
            # A raised local would keep this frame, and with it all tables, in a reference cycle.
            raise ConversionError(outcome.message, outcome.fix)
        outcomes.append(outcome)
    changed = [
        (item, outcome) for item, outcome in zip(files, outcomes, strict=True) if outcome.is_changed
    ]
    log.info("merging rewrites %d of %d files", len(changed), len(work.live))
    drops = [bucket.drops for bucket in changes.buckets] + [each.drops for each in outcomes]
    gone = [each for each in drops if each is not None]
    changelog = None
    if writer is not None:
        # The first changelog begins with all rows that the dataset already has.
        before = live if work.target.begins_changelog else []
        sources = [StagedSource(each.rows, each.file.folder) for each in staged]
        touched = [ChangedFile(item, match.changed) for item, match in changed if match.changed]
        changelog = writer.changelog(sources, gone, touched, before, work.stage)
    thinned = _thinned(staged, gone, work, dataset_files)
    results = tuple(with_files(each, thinned) for each in finished)
    if measured and work.event_times is not None:
        known = [*gone, *(each.met for each in outcomes if each.met is not None)]
        results = with_lateness(
            results, measured, known, work.event_times, dataset_files, work.stage
        )
    return PublishableResults(
        results,
        rewritten=tuple(file for _, outcome in changed for file in outcome.rewritten),
        replaced=tuple(item.file for item, _ in changed),
        merged=_counted(results, outcomes),
        changelog=changelog,
    )


def _candidates(
    work: Reshaping,
    matching: Matching,
    live: Sequence[Candidate],
    bounds: Sequence[pa.Table | None],
) -> Sequence[Candidate]:
    """Return the live files that may lose rows, each with the changed keys that it may have.

    Raises:
        SourceContractError: more rows are missing at the source than may be deleted.
    """
    if not work.detects_missing:
        search = KeySearch(matching.dataset_files, matching.keyed, matching.changes)
        return search.narrowed(live, bounds)
    every = tuple(range(len(matching.changes.buckets)))
    files = [replace(item, buckets=every) for item in live]
    limit = matching.keyed.spec.max_deleted_percent
    counts = work.stage(matching.count, files, bytes_of(files))
    rows = sum(count.rows for count in counts)
    missing = sum(count.missing for count in counts)
    if missing * 100 > rows * limit:
        raise SourceContractError(
            f"{missing:,} of {rows:,} rows of the dataset are missing at the source, which is more"
            f" than ms.merge.delete.limit.percent={limit} allows to delete. Nothing was published",
            "Check whether the source gave all rows. If these rows are to go, run once with a"
            " higher limit: -D ms.merge.delete.limit.percent=100",
        )
    return files


def _counted(finished: Sequence[FinishedUnit], outcomes: Sequence[FileMatch]) -> MergedRows:
    rows = sum(each.report.rows for each in rows_of(finished))
    # There may be several rows of one key if other modes published before.
    updated = min(sum(each.updated for each in outcomes), rows)
    return MergedRows(rows - updated, updated, sum(each.deleted for each in outcomes))


@dataclass(frozen=True, slots=True)
class _Staged:
    """A staged file of a work unit, with its rows."""

    work: FinishedUnit
    file: StagedFile
    rows: NumberedFile


def _staged(finished: Sequence[FinishedUnit], dataset_files: DatasetFiles) -> list[_Staged]:
    found = [
        (unit, part.work, file, source)
        for unit, part in enumerate(parts_of(finished, dataset_files))
        for file, source in zip(part.work.report.files, part.files, strict=True)
    ]
    lanes: dict[tuple[int, str, str], int] = {}
    staged = []
    for number, (unit, work, file, source) in enumerate(found):
        lane = lanes.setdefault((unit, file.folder, file.timelabel), len(lanes))
        staged.append(_Staged(work, file, NumberedFile(number, source, file.bytes, unit, lane)))
    return staged


def _measured_files(work: Reshaping, staged: Sequence[_Staged]) -> list[MergedFile]:
    """Return the staged files whose new rows' lateness is measured."""
    if work.event_times is None:
        return []
    return [
        MergedFile(each.work.work_unit.signature, each.rows.number, each.rows.source,
                   each.file.bytes, lateness.largest_before)
        for each in staged
        if (lateness := lateness_of(each.work)) is not None and lateness.largest_before is not None
    ]  # fmt: skip


def _live(
    work: Reshaping, schemas: Schemas, keyed: KeyReader, dataset_files: DatasetFiles
) -> tuple[list[Candidate], list[pa.Table | None]]:
    """Return all live files as candidates for any key, and the bounds of their keys."""
    live = [each for each in work.live if not each.is_dump]
    paths = [dataset_files.filesystem.path_of(file.uri) for file in live]
    look = BoundsReader(dataset_files, keyed, schemas.known)
    looked = work.stage(look, paths, len(paths) * _BYTES_OF_A_LOOK)
    found, output_dir = [], work.target.output_dir
    for number, (file, (source, _)) in enumerate(zip(live, looked, strict=True)):
        folder = source.path.rpartition("/")[0]
        is_below = folder.startswith(f"{output_dir}/")
        folder = folder[len(output_dir) :].strip("/") if is_below else ""
        target = target_of(source, schemas.target, folder)
        must = schemas.is_widened and has_other_types(source.schema, target)
        found.append(Candidate(number, file, source, target, folder, buckets=(), must=must))
    return found, [bounds for _, bounds in looked]


@dataclass(frozen=True, slots=True)
class _Thinned:
    """Rewrites a staged file without the rows that are not published."""

    dataset_files: DatasetFiles
    drops: tuple[DroppedRows, ...]

    def __call__(self, item: _Staged) -> tuple[StagedFile, ...]:
        number = item.rows.number
        places = merged_row_numbers(places_in_file(self.dataset_files, self.drops, number))
        kept = (
            batch.filter(pc.invert(is_among(start, batch.num_rows, places)))
            for start, batch in item.rows.source.numbered(self.dataset_files)
        )
        return self.dataset_files.write(f"kept-{number}", kept, item.file)


def _thinned(
    staged: Sequence[_Staged],
    drops: Sequence[DroppedRows],
    work: Reshaping,
    dataset_files: DatasetFiles,
) -> dict[str, tuple[StagedFile, ...]]:
    """Return, by the path of each staged file that loses rows, the files that replace it."""
    numbers = frozenset[int]().union(*(each.files for each in drops))
    items = [item for item in staged if item.rows.number in numbers]
    size = sum(item.file.bytes for item in items)
    made = work.stage(_Thinned(dataset_files, tuple(drops)), items, size)
    return {item.file.path: files for item, files in zip(items, made, strict=True)}
