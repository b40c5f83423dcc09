"""Prints the changes of an amendment, and the work units of the next run after it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dil.cli.stdout import emit, emit_json
from dil.observe.logs import one_line
from dil.observe.plan_view import closed_labels_of
from dil.observe.progress import counted
from dil.state.blocks.canonical import watermark_text
from dil.text.zones import find_zone, moment

if TYPE_CHECKING:
    from dil.model.dataset import UnitEntry
    from dil.model.json import JsonObject
    from dil.operator.amendments import FileChange, Preview
    from dil.state.amendments.operations import Proposal

_ROWS_SHOWN = 20
_LINE = "  {:<10} {:<29} {:<10} {:<29} {}\n"


def show(preview: Preview, *, is_agreed: bool) -> None:
    """Print a preview for people."""
    job, proposal = preview.job, preview.proposal
    zone = find_zone(job.planning.zone)
    labels = (*proposal.closes, *proposal.reopens)
    what = counted(len(labels), "timelabel") if labels else ""
    if proposal.changes or not labels:
        what = " and ".join(filter(None, (counted(len(proposal.changes), "work unit"), what)))
    title = f"{job.name}  {proposal.verb}  {what}"
    verb = "to change" if is_agreed else "would change"
    emit(f"{title} {verb}, times in {job.planning.zone}\n")
    if proposal.changes:
        emit(_LINE.format("now", "done up to", "then", "done up to", "work unit"))
    for change in proposal.changes[:_ROWS_SHOWN]:
        cells: list[str] = []
        for entry in (change.before, change.after):
            high = "-" if entry is None or entry.high is None else moment(entry.high, zone)
            cells += ["none" if entry is None else entry.status, high]
        if not emit(_LINE.format(*cells, one_line(change.signature))):
            return
    if len(proposal.changes) > _ROWS_SHOWN:
        emit(f"  and {len(proposal.changes) - _ROWS_SHOWN:,} more (--json lists all)\n")
    for window in labels:
        word = "to be closed" if window in proposal.closes else "to be reopened"
        period = f"{moment(window.low, zone)} to {moment(window.high, zone)}"
        emit(f"  {window.label}  {period}  {word}\n")
    for note in _sentences(preview):
        emit(f"  {note}\n")


def _sentences(preview: Preview) -> Iterator[str]:
    proposal = preview.proposal
    yield from proposal.notes
    if proposal.sets_watermark:
        yield f"the dataset's watermark becomes {_watermark(proposal)}"
    if proposal.runs:
        way_back = "undo leaves them out" if preview.is_undoable else "this cannot be undone"
        yield f"{counted(proposal.runs, 'row')} of old runs to be deleted; {way_back}"
    for each in preview.leftovers:
        what = f"{counted(len(each.files), 'old file')} of {each.bytes:,} bytes in {each.folder}"
        yield f"{what}: deleted for good"
    affected = preview.files.affected
    if affected:
        rows = sum(file.rows for file in affected)
        what = f"{counted(len(affected), 'published file')} with {counted(rows, 'row')}"
        yield f"{what}: {preview.files.fate}"
    back = [move.target for move in preview.files.moves]
    if back and not preview.files.only_records:
        rows = sum(file.rows for file in back)
        yield f"{counted(len(back), 'file')} with {counted(rows, 'row')}: brought back"
    if preview.doubled_rows:
        yield (
            f"DOUBLED ROWS: the next run appends these {counted(preview.doubled_rows, 'row')} "
            "a second time"
        )
    if preview.plan is None:
        yield f"the next run's work units are not shown: {preview.no_plan}"
    else:
        due = len(preview.plan.work_units)
        left = f", and {preview.plan.left:,} more in later runs" if preview.plan.left else ""
        yield f"due in the next run: {counted(due, 'work unit')}{left}"
        yield from closed_labels_of(preview.plan)


def _watermark(proposal: Proposal) -> str:
    return "none" if proposal.watermark is None else watermark_text(proposal.watermark)


def show_json(preview: Preview, *, act_id: str | None, block: JsonObject | None) -> None:
    """Print a preview, or a finished act, as one JSON document."""
    proposal, plan = preview.proposal, preview.plan
    labels = {"closed": proposal.closes, "reopened": proposal.reopens}
    named = {word: [each.label for each in windows] for word, windows in labels.items()}
    emit_json(
        {
            "job": preview.job.name,
            "verb": proposal.verb,
            "applied": act_id is not None,
            "act": act_id,
            "changes": [
                {
                    "signature": each.signature,
                    "from": _entry(each.before),
                    "to": _entry(each.after),
                }
                for each in proposal.changes
            ],
            **({"timelabels": named} if any(named.values()) else {}),
            "watermark": _watermark(proposal) if proposal.sets_watermark else "kept",
            "runs": proposal.runs,
            "files": _files(preview.files),
            "leftovers": [
                {"folder": each.folder, "files": len(each.files), "bytes": each.bytes}
                for each in preview.leftovers
            ],
            "needs": list(preview.files.needs),
            "doubled_rows": preview.doubled_rows,
            "next_run": None
            if plan is None
            else {
                "work_units": len(plan.work_units),
                "left": plan.left,
                "signatures": [
                    unit.signature for unit in itertools.islice(plan.work_units, _ROWS_SHOWN)
                ],
            },
            "notes": [*proposal.notes, *([preview.no_plan] if preview.no_plan else [])],
            "block": block,
        }
    )


def _files(change: FileChange) -> dict[str, object]:
    if change.only_records:
        return {
            "fate": "recorded",
            "listed": [move.target.uri for move in change.moves],
            "no_longer_listed": [file.uri for file in change.withdrawn],
        }
    back = [move.target for move in change.moves]
    is_back_alone = bool(back) and not change.affected
    files = back if is_back_alone else change.affected
    return {
        "fate": "brought back" if is_back_alone else change.fate,
        "rows": sum(file.rows for file in files),
        "uris": [file.uri for file in files],
        "brought_back": [file.uri for file in back],
    }


def _entry(entry: UnitEntry | None) -> dict[str, object] | None:
    if entry is None:
        return None
    return {
        "low": entry.low,
        "high": entry.high,
        "status": entry.status,
        "attempts": entry.attempts,
    }
