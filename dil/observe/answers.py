"""Notes about sent rows that the receiver refused or answered with a warning; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dil.model.task import TaskReport
from dil.observe.progress import counted


def answer_notes(published: Iterable[TaskReport], folder: str) -> tuple[str, ...]:
    """Return a note for refused rows, and a note for rows that got a warning.

    Args:
        published: The reports of the work units that the run published.
        folder: Where refused rows are kept.
    """
    counts: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
    for report in published:
        for each in report.answers:
            counts[each.is_kept][each.status] += each.rows
    refused, warned = counts[True], counts[False]
    notes = []
    if refused:
        notes.append(
            f"REFUSED ROWS: the receiver took {counted(refused.total(), 'row')} fewer than were "
            f"sent ({_by_status(refused)}); the refused rows are kept in {folder}"
        )
    if warned:
        notes.append(
            f"{counted(warned.total(), 'request')} with rows got an answer that the job counts as "
            f"a warning ({_by_status(warned)}): check at the receiver whether it took those rows"
        )
    return tuple(notes)


def _by_status(counts: Counter[int]) -> str:
    return ", ".join(f"status {status}: {rows:,}" for status, rows in sorted(counts.items()))
