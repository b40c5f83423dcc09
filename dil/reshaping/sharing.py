"""Joins small staged files of a run into shared files, and takes replaced rows out of such files.

This happens before the intent, in a folder of its own below the run's staging, and a repetition
begins from scratch. The staged files of the work units stay where they are, so that another run can
adopt them if this run ends before the intent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dil.model.dataset import UnitRows
from dil.model.task import StagedFile
from dil.publishing.moves import folder_of
from dil.publishing.results import FinishedUnit, PublishableResults
from dil.publishing.shared_files import is_small, packed
from dil.reshaping.files import DatasetFiles
from dil.reshaping.reshaping import Reshaping, replaced_in_part, replaced_units, rows_of
from dil.reshaping.shared_files import SharedFilePiece, SharedFilePlan, SharedFileWriter, rest_of
from dil.reshaping.unifying import with_files
from dil.storage import Filesystem
from dil.types.schema_text import parse_schema


@dataclass(frozen=True, slots=True)
class _SmallFile:
    """A small staged file of a work unit."""

    work: FinishedUnit
    file: StagedFile

    @property
    def bytes(self) -> int:
        return self.file.bytes

    @property
    def piece(self) -> SharedFilePiece:
        rows = self.file.rows
        return SharedFilePiece(
            self.file.path, rows, (UnitRows(self.work.work_unit.signature, 0, rows),)
        )


def share(
    work: Reshaping, shaped: PublishableResults, filesystem: Filesystem
) -> PublishableResults:
    """Return results with small files joined, and with replaced rows taken out of shared files.

    Raises:
        ConversionError: a file does not hold the rows that it should.
        WriteError: the file system refused.
    """
    filesystem.delete_tree(work.shared_folder)
    dataset_files = DatasetFiles(
        work.job.publishing.final_dir, work.shared_folder, work.job.writing
    )
    planned = _together(work, shaped.finished) if work.job.publishing.shares_files else []
    sizes = {file.path: file.bytes for each in shaped.finished for file in each.report.files}
    taken = frozenset(piece.path for plan in planned for piece in plan.pieces)
    schema = next((each.report.schema for each in rows_of(shaped.finished)), "")
    together = work.stage(
        SharedFileWriter(dataset_files, parse_schema(schema)),
        planned,
        sum(sizes[path] for path in taken),
    )
    joined: dict[str, tuple[StagedFile, ...]] = dict.fromkeys(taken, ())
    touched = replaced_in_part(work, shaped.finished)
    # Live files that lose replaced rows are written again with their other rows, if they have any.
    write_rest = SharedFileWriter(dataset_files, parse_schema(work.known))
    leaving = replaced_units(shaped.finished)
    plans = [
        rest_of(file, filesystem.path_of(file.uri), leaving, f"rest-{number}")
        for number, file in enumerate(touched)
    ]
    rests = work.stage(
        write_rest,
        [plan for plan in plans if plan is not None],
        sum(file.bytes for file in touched),
    )
    return replace(
        shaped,
        finished=tuple(with_files(each, joined) for each in shaped.finished),
        shared=(*together, *rests),
        replaced=(*shaped.replaced, *touched),
    )


def _together(work: Reshaping, finished: Sequence[FinishedUnit]) -> list[SharedFilePlan]:
    """Return plans to join staged files that are neighbours in one folder and timelabel."""
    job, target = work.job, work.target
    alike: dict[tuple[str, str], list[_SmallFile]] = defaultdict(list)
    for each in rows_of(finished):
        unit = each.work_unit
        for file in each.report.files:
            if is_small(file, job.writing.target_bytes) and file.rows:
                folder = folder_of(job, target.output_dir, unit, file)
                alike[folder, file.timelabel or unit.timelabel or ""].append(_SmallFile(each, file))
    groups = (
        (place, group)
        for place, files in alike.items()
        for group in packed(files, job.writing.target_bytes)
        if len({small.work.work_unit.signature for small in group}) > 1
    )
    return [
        SharedFilePlan(f"shared-{number}", tuple(small.piece for small in group), folder, label)
        for number, ((folder, label), group) in enumerate(groups)
    ]
