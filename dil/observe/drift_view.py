"""Shows changes of the schema, and rows that were put aside, to people and as JSON members."""

from __future__ import annotations

from collections.abc import Iterator

from dil.model.report import RunReport
from dil.observe.drift import LEFT_OUT
from dil.observe.progress import counted

_SHOWN = 5
_TYPE_LENGTH = 60


def members(report: RunReport) -> dict[str, object]:
    """Return the members of the JSON report."""
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


def lines(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each line of the summary."""
    yield from _aside(report)
    for each in report.aside.discarded[:_SHOWN]:
        yield "left out", f'{counted(each.values, "value")} of column "{each.column}"'
    if len(report.aside.discarded) > _SHOWN:
        more = len(report.aside.discarded) - _SHOWN
        yield "left out", f"values of {counted(more, 'more column')}"
    changes = [one for one in report.drift if one.change != LEFT_OUT]  # a note names these rows
    advice = dict.fromkeys(one.advice for one in changes if one.advice)
    for one in changes[:_SHOWN]:
        before, after = _short(one.before), _short(one.after)
        if one.change == "added":
            yield "schema", f'new column "{one.column}" ({after})'
        elif one.change == "widened":
            yield "schema", f'column "{one.column}" widened from {before} to {after}'
        else:
            yield "schema", f'column "{one.column}" ({before}) was not seen in this run'
    if len(changes) > _SHOWN:
        more = len(changes) - _SHOWN
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
    for one in aside.reasons[:_SHOWN]:
        yield "", f'  {counted(one.rows, "row")}: column "{one.column}": {one.reason}'
    if len(aside.reasons) > _SHOWN:
        yield "", f"  and {counted(len(aside.reasons) - _SHOWN, 'more reason')}"


def _short(kind: str) -> str:
    return kind if len(kind) <= _TYPE_LENGTH else f"{kind[: _TYPE_LENGTH - 3]}..."
