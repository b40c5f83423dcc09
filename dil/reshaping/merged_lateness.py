"""Measures the lateness of rows that a merge inserts: rows whose keys the dataset lacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc
from msgspec import UNSET

from dil.eventtime.lateness import Histogram, histogram_of
from dil.eventtime.lateness import merge as merged
from dil.model.event_tally import EventTally, UnitLateness
from dil.publishing.results import FinishedUnit
from dil.reshaping.changes import DroppedRows, places_in_file
from dil.reshaping.files import DatasetFiles, RowFile
from dil.reshaping.keys import is_among, merged_row_numbers
from dil.reshaping.reshaping import EventTimes, Stage


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A staged file with its number in the run.

    ``largest_before`` is the largest event time that was published before the run, epoch ms UTC.
    """

    signature: str
    number: int
    source: RowFile
    bytes: int
    largest_before: int


@dataclass(frozen=True, slots=True)
class _Measured:
    """Measures the rows of a staged file that are not in ``known``; runs in a task."""

    dataset_files: DatasetFiles
    times: EventTimes
    known: tuple[DroppedRows, ...]

    def __call__(self, item: MergedFile) -> Histogram:
        if self.times.column not in item.source.schema.names:
            return Histogram()
        known = merged_row_numbers(places_in_file(self.dataset_files, self.known, item.number))
        found = Histogram()
        for start, batch in item.source.numbered(self.dataset_files, [self.times.column]):
            new = batch.filter(pc.invert(is_among(start, batch.num_rows, known)))
            found = merged([found, histogram_of(self.times(new), item.largest_before)])
        return found


def with_lateness(
    finished: Sequence[FinishedUnit],
    files: Sequence[MergedFile],
    known: Sequence[DroppedRows],
    times: EventTimes,
    dataset_files: DatasetFiles,
    stage: Stage,
) -> tuple[FinishedUnit, ...]:
    """Return the results with the lateness of the rows that a merge inserts.

    Args:
        finished: The work units of the run.
        files: The files that they staged.
        known: The rows in these files that are not new, or not published.
        times: Finds event times.
        dataset_files: Reads files.
        stage: Runs the tasks.
    """
    items = list(files)
    measure = _Measured(dataset_files, times, tuple(known))
    found: dict[str, Histogram] = {}
    size = sum(item.bytes for item in items)
    for item, histogram in zip(items, stage(measure, items, size), strict=True):
        found[item.signature] = merged([found.get(item.signature, Histogram()), histogram])
    results = []
    for each in finished:
        own, lateness = found.get(each.work_unit.signature), lateness_of(each)
        events = each.report.events
        if own is not None and lateness is not None and isinstance(events, EventTally):
            rows = tuple(own.ascending())
            events = replace(events, lateness=replace(lateness, rows_by_edge=rows))
        results.append(replace(each, report=replace(each.report, events=events)))
    return tuple(results)


def lateness_of(each: FinishedUnit) -> UnitLateness | None:
    """Return the lateness that the task of a work unit measured, None if it measured none."""
    events = each.report.events
    if not isinstance(events, EventTally) or events.lateness is UNSET:
        return None
    return events.lateness
