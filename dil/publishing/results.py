"""The results of a run in the form for publishing, and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dil.model.dataset import PublishedFile, UnitRows
from dil.model.report import MergedRows
from dil.model.task import StagedFile, TaskReport
from dil.model.work_unit import WorkUnit


@dataclass(frozen=True, slots=True)
class FinishedUnit:
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

    finished: Sequence[FinishedUnit]
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
    work units that the run only records. ``has_all_rows`` is true if the run read all rows of the
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
    has_all_rows: bool = False
    begins_changelog: bool = False
