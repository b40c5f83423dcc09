"""A run's results before they are published, and the check whether files must change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, TypeVar

from dil.errors import ConversionError
from dil.model.dataset import PublishedFile
from dil.model.destination import MergeSpec
from dil.model.job import Job, OutputFormat, PublishMode
from dil.publishing.layout import run_staging_dir
from dil.publishing.results import FinishedUnit, PublishTarget
from dil.types.schema_lines import column_types, regardless_of_nulls

log = logging.getLogger(__name__)

# A million keys take some 100 MB while they are sorted and joined.
BUCKET_ROWS = 1_000_000
RESHAPED = "_reshaped"
SHARED = "_shared"

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")


class Stage(Protocol):
    """Runs a function over items and returns the results in their order.

    The function and the items can be pickled; a call may be made twice, and the first result
    counts. ``size`` is how many bytes all calls read together.
    """

    def __call__(self, function: Callable[[T], R], items: Sequence[T], size: int) -> list[R]:
        """Return the results; raises the error of the first call that failed."""


class EventTimes(Protocol):
    """Finds the event times of rows; can be pickled."""

    @property
    def column(self) -> str:
        """Return the column of rows that has the event times."""

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return event times in epoch ms UTC, null for a row without one."""


@dataclass(frozen=True, slots=True)
class Reshaping:
    """One run's results on their way to the dataset.

    ``target`` is the dataset before the run, ``now`` the run's now in epoch ms UTC.
    ``has_all_rows`` is true if the run read all rows of the source. At most ``bucket_rows`` changed
    keys are in memory at once. If ``keeps_others`` is true, a work unit whose rows do not fit the
    rows of other units fails alone. ``event_times`` finds the event times of rows, None if lateness
    is not measured.
    """

    job: Job
    target: PublishTarget
    now: int
    has_all_rows: bool
    stage: Stage
    bucket_rows: int = BUCKET_ROWS
    keeps_others: bool = False
    event_times: EventTimes | None = None

    @property
    def folder(self) -> str:
        """Return the folder in which rewritten files are staged."""
        return f"{self._staging}/{RESHAPED}"

    @property
    def shared_folder(self) -> str:
        """Return the folder in which shared files of work units are staged."""
        return f"{self._staging}/{SHARED}"

    @property
    def _staging(self) -> str:
        return run_staging_dir(self.job.publishing, self.job.name, self.target.run_id)

    @property
    def live(self) -> Sequence[PublishedFile]:
        """Return the files of the dataset before the run; none if the run replaces all."""
        return () if self.job.publishing.mode is PublishMode.REPLACE else self.target.live

    @property
    def merge(self) -> MergeSpec | None:
        """Return the settings for merging files; None if no files are merged."""
        return self.job.publishing.merge if self.job.publishing.keeps_files else None

    @property
    def keeps_changelog(self) -> bool:
        """Return whether the rows that change are recorded."""
        return self.merge is not None and self.job.publishing.keeps_changelog

    @property
    def known(self) -> str:
        """Return the recorded schema that the run's rows are added to; empty for a replace."""
        return "" if self.job.publishing.mode is PublishMode.REPLACE else self.target.known_schema

    @property
    def detects_missing(self) -> bool:
        """Return whether rows are deleted if this run did not read their keys."""
        return self.merge is not None and self.merge.deletes_missing and self.has_all_rows


def fits_as_it_is(work: Reshaping, finished: Sequence[FinishedUnit]) -> bool:
    """Return whether all staged files have the dataset's schema, and nothing is merged.

    Raises:
        ConversionError: no column marks deletes.
    """
    _refuse_unknown_op(work, finished)
    texts = {each.report.schema for each in rows_of(finished)}
    if work.merge is not None and (work.detects_missing or texts):
        return False
    if not texts or texts == {work.known}:
        return True
    if len(texts) > 1:
        return False
    if not work.known:
        return True
    # All formats but CSV allow a missing column, or another order of columns.
    if work.job.writing.format is OutputFormat.CSV:
        return False
    types = column_types(regardless_of_nulls(work.known))
    found = column_types(regardless_of_nulls(texts.pop()))
    return all(types.get(name, kind) == kind for name, kind in found.items())


def rows_of(finished: Sequence[FinishedUnit]) -> list[FinishedUnit]:
    """Return, in plan order, the work units with staged rows; dumped files do not count."""
    return [
        each
        for each in finished
        if each.report.failure is None and each.report.schema and each.report.files
    ]


def replaced_units(finished: Sequence[FinishedUnit]) -> frozenset[str]:
    """Return the signatures of work units whose rows replace their earlier rows."""
    return frozenset(each.work_unit.signature for each in finished if each.report.failure is None)


def replaced_in_part(work: Reshaping, finished: Sequence[FinishedUnit]) -> list[PublishedFile]:
    """Return the live shared files from which the rows of replaced work units leave."""
    if work.job.publishing.mode is not PublishMode.WINDOW_REPLACE:
        return []
    again = replaced_units(finished)
    return [file for file in work.live if file.is_shared and not again.isdisjoint(file.signatures)]


def are_files_shared(work: Reshaping, finished: Sequence[FinishedUnit]) -> bool:
    """Return whether work units share files, or rows of a unit leave a shared file."""
    if work.job.publishing.shares_files and len(rows_of(finished)) > 1:
        return True
    return bool(replaced_in_part(work, finished))


def _refuse_unknown_op(work: Reshaping, finished: Sequence[FinishedUnit]) -> None:
    """Refuse a column for deletes that does not exist: all rows would count as upserts.

    A source may have this column in deleted rows only. So the run's rows may lack the column if the
    dataset has it.

    Raises:
        ConversionError: neither the run's rows nor the dataset has the column.
    """
    merge = work.job.publishing.merge
    texts = {each.report.schema for each in rows_of(finished)}
    if merge is None or not merge.op_field or not texts:
        return
    columns = [name for text in sorted(texts) for name in column_types(text)]
    if merge.op_field in columns:
        return
    name = f'ms.merge.op.field names "{merge.op_field}"'
    if merge.op_field in column_types(work.known):
        log.warning("%s, which no row of this run has: none of them counts as deleted", name)
        return
    near = get_close_matches(merge.op_field, columns, n=1)
    raise ConversionError(
        f"{name}, which is no column of the rows: they have {', '.join(dict.fromkeys(columns))}",
        f"{f'Did you mean {near[0]}? ' if near else ''}Correct ms.merge.op.field. A column that the"
        " source has in deleted rows only is listed in ms.output.schema.",
    )
