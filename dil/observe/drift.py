"""Finds the changes of a dataset's schema in a run, and the rows that the run put aside; pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping

from dil.model.destination import DELETED_AT
from dil.model.job import Job, PublishMode
from dil.model.report import RowsAside, SchemaDrift
from dil.model.task import DiscardCount, RejectCount, TaskReport
from dil.types.schema_lines import column_types

LEFT_OUT = "left out"
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
    others = tuple(SchemaDrift(name, LEFT_OUT, advice=_DECLARE) for name in left_out)
    seen = {name for report in published for name in _columns(report.schema)}
    if not before or not seen:
        return others
    old, new = _columns(before), _columns(after)
    refill = ""
    if job.publishing.mode is not PublishMode.REPLACE:
        command = f"dil run {shlex.quote(job.path)} -D ms.backfill=true"
        if job.publishing.mode is PublishMode.APPEND:
            command += " -D ms.publish.mode=window_replace"
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
        SchemaDrift(name, "missing", kind, "") for name, kind in old.items() if name not in seen
    ]
    return (*changes, *others)


def rows_aside(published: Iterable[TaskReport], folder: str) -> RowsAside:
    """Return the rows that published work units put aside, the most frequent reasons first.

    ``folder`` is where such rows are kept.
    """
    reasons: Counter[tuple[str, str]] = Counter()
    discarded: Counter[str] = Counter()
    rows = 0
    for report in published:
        rows += sum(file.rows for file in report.quarantined)
        for reject in report.rejects:
            reasons[reject.column, reject.reason] += reject.rows
        for each in report.discarded:
            discarded[each.column] += each.values
    return RowsAside(
        rows,
        folder if rows else "",
        tuple(RejectCount(*key, count) for key, count in reasons.most_common()),
        tuple(DiscardCount(*each) for each in discarded.most_common()),
    )


def _columns(text: str) -> Mapping[str, str]:
    """Return the type of each column of the source; the type does not say if null is allowed."""
    return {name: kind for name, kind in column_types(text).items() if name != DELETED_AT}
