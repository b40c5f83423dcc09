"""Finds and shows changes of a dataset's schema in a run, and rows that the run put aside."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from dil.model.destination import DELETED_AT
from dil.model.job import Job, PublishMode
from dil.model.report import RowsAside, RunReport, SchemaDrift
from dil.model.task import DiscardCount, RejectCount, TaskReport
from dil.observe.progress import counted
from dil.types.schema_lines import column_types

_LINES_SHOWN = 5
_TYPE_LENGTH = 60
_LEFT_OUT = "left out"
_MISSING = "missing"
_DECLARE = "declare it in ms.output.schema to keep it; ms.schema.contract has other choices"
# Rows that are read again are not judged, so a repeated reading fills neither column.
_OF_LATENESS = frozenset({"_late", "_lateness_ms"})


def drift(
    job: Job, before: str, after: str, published: Iterable[TaskReport]
) -> tuple[SchemaDrift, ...]:
    """Return the columns that changed in a run, and columns of the source that were left out.

    No column counts as changed if no schema was known before. ``before`` and ``after`` are the
    dataset's recorded schemas, one line for each column. ``published`` are the reports of the
    published work units.
    """
    published = tuple(published)
    left_out = dict.fromkeys(name for report in published for name in report.left_out or ())
    others = tuple(SchemaDrift(name, _LEFT_OUT, advice=_DECLARE) for name in left_out)
    seen = {name for report in published for name in _columns(report.schema)}
    if not before or not seen:
        return others
    old, new = _columns(before), _columns(after)
    refill = ""
    if job.publishing.mode is not PublishMode.REPLACE:
        command = f"dil run {shlex.quote(job.path)} -D ms.backfill=true"
        if job.publishing.mode is PublishMode.APPEND:
            command += " -D ms.publish.mode=window_replace"
        if job.stream is not None:  # a stream with ms.backfill is refused
            command += " -D ms.stream.mode=none"
        refill = f"rows that were published before lack it; to read them again: {command}"
    changes = [
        SchemaDrift(name, "added", "", kind, "" if name in _OF_LATENESS else refill)
        for name, kind in new.items()
        if name not in old
    ]
    changes += [
        SchemaDrift(name, "widened", old[name], kind)
        for name, kind in new.items()
        if name in old and kind != old[name]
    ]
    changes += [
        SchemaDrift(name, _MISSING, kind, "") for name, kind in old.items() if name not in seen
    ]
    return (*changes, *others)


def drift_of_both(first: RunReport, second: RunReport) -> tuple[SchemaDrift, ...]:
    """Return the changes of two runs, one after the other, each once.

    A column that was in the rows of either run is not missing.
    """
    changes = dict.fromkeys((*first.drift, *second.drift))
    if not (first.rows and second.rows):
        return tuple(changes)
    in_both = set(first.drift).intersection(second.drift)
    return tuple(each for each in changes if each.change != _MISSING or each in in_both)


def rows_aside(published: Iterable[TaskReport], folder: str) -> RowsAside:
    """Return the rows that published work units put aside, the most frequent reasons first.

    ``folder`` is where such rows are kept.
    """
    published = tuple(published)
    rows = sum(file.rows for report in published for file in report.quarantined)
    return _aside_of(
        rows,
        folder if rows else "",
        (each for report in published for each in report.rejects),
        (each for report in published for each in report.discarded),
    )


def aside_of_both(first: RowsAside, second: RowsAside) -> RowsAside:
    """Return what two runs of a job put aside."""
    return _aside_of(
        first.rows + second.rows,
        first.folder or second.folder,
        (*first.reasons, *second.reasons),
        (*first.discarded, *second.discarded),
    )


def _aside_of(
    rows: int, folder: str, rejects: Iterable[RejectCount], values: Iterable[DiscardCount]
) -> RowsAside:
    reasons: Counter[tuple[str, str]] = Counter()
    discarded: Counter[str] = Counter()
    for reject in rejects:
        reasons[reject.column, reject.reason] += reject.rows
    for each in values:
        discarded[each.column] += each.values
    return RowsAside(
        rows,
        folder,
        tuple(RejectCount(*key, count) for key, count in reasons.most_common()),
        tuple(DiscardCount(*each) for each in discarded.most_common()),
    )


def _columns(text: str) -> Mapping[str, str]:
    """Return the type of each column of the source; the type does not say if null is allowed."""
    return {name: kind for name, kind in column_types(text).items() if name != DELETED_AT}


def drift_json(report: RunReport) -> dict[str, object]:
    """Return the members of a run's JSON report on its schema, and on rows that it put aside."""
    aside = report.aside
    return {
        "quarantined": aside.rows,
        "quarantine_dir": aside.folder,
        "rejects": [
            {"column": one.column, "reason": one.reason, "rows": one.rows} for one in aside.reasons
        ],
        "discarded": [{"column": one.column, "values": one.values} for one in aside.discarded],
        "drift": [
            {
                "column": one.column,
                "change": one.change,
                "before": one.before or None,
                "after": one.after or None,
                "advice": one.advice,
            }
            for one in report.drift
        ],
    }


def drift_lines(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield the lines of a run's summary on the same, each with its label."""
    yield from _aside(report)
    for each in report.aside.discarded[:_LINES_SHOWN]:
        yield "left out", f'{counted(each.values, "value")} of column "{each.column}"'
    if len(report.aside.discarded) > _LINES_SHOWN:
        more = len(report.aside.discarded) - _LINES_SHOWN
        yield "left out", f"values of {counted(more, 'more column')}"
    changes = [one for one in report.drift if one.change != _LEFT_OUT]  # a note names these rows
    advice = dict.fromkeys(one.advice for one in changes if one.advice)
    for one in changes[:_LINES_SHOWN]:
        before, after = _short(one.before), _short(one.after)
        if one.change == "added":
            yield "schema", f'new column "{one.column}" ({after})'
        elif one.change == "widened":
            yield "schema", f'column "{one.column}" widened from {before} to {after}'
        else:
            yield "schema", f'column "{one.column}" ({before}) was not seen in this run'
    if len(changes) > _LINES_SHOWN:
        more = len(changes) - _LINES_SHOWN
        yield "schema", f"{counted(more, 'more change')}; --json lists all of them"
    for text in advice:
        yield "schema", text


def _aside(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield a warning if rows of the source are not in the dataset."""
    aside = report.aside
    if not aside.reasons:
        return
    struck = sum(one.rows for one in aside.reasons)
    if aside.rows:
        yield "QUARANTINE", f"{counted(aside.rows, 'row')} put aside in {aside.folder}"
    else:
        yield "DROPPED", f"{counted(struck, 'row')}, not kept: ms.quarantine.enabled is false"
    for one in aside.reasons[:_LINES_SHOWN]:
        yield "", f'  {counted(one.rows, "row")}: column "{one.column}": {one.reason}'
    if len(aside.reasons) > _LINES_SHOWN:
        yield "", f"  and {counted(len(aside.reasons) - _LINES_SHOWN, 'more reason')}"


def _short(kind: str) -> str:
    return kind if len(kind) <= _TYPE_LENGTH else f"{kind[: _TYPE_LENGTH - 3]}..."
