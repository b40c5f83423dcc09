"""Closes and reopens timelabels inside the transaction of a commit (rules T31 and T32)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from dil.model.closed_labels import CLOSED_LABELS, ClosedLabelChanges, ClosedLabels, LabelWindow
from dil.model.dataset import Commit
from dil.model.event_tally import EVENT_TIME
from dil.model.json import JsonObject
from dil.state.blocks.events import CLOSE_BOOKS, REOPEN_BOOKS, ConfigEvent
from dil.state.blocks.source_state import COMMITTED, OPEN, SKIPPED, UnitSummary
from dil.state.chain.writer import ChainWriter
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.runs import details
from dil.text.windows import Windows, label_start, label_text, windows_of

_FIRST = -(2**63)
# The most labels closed by one commit: a job with a long history closes the rest later.
_MOST_LABELS = 10_000


class LabelCloser:
    """Closes and reopens labels of a job during one commit, as ``changes`` says."""

    def __init__(
        self, tx: Transaction, job: str, commit: Commit, changes: ClosedLabelChanges
    ) -> None:
        self._tx = tx
        self._job = job
        self._commit = commit
        self._changes = changes
        self._before = details.checkpoint(tx, job, CLOSED_LABELS)
        self._closed = ClosedLabels.of(self._before)
        self._marks: list[list[object]] = []

    def reopen(self, writer: ChainWriter) -> None:
        """Draft blocks that reopen the closed labels whose rows change."""
        for window in self._changes.reopens:
            if self._closed.is_closed(window):
                writer.draft(self._event(REOPEN_BOOKS, window))
                self._closed = self._closed.with_reopened(window)
                self._mark(window, "REOPENED")

    def close(self, writer: ChainWriter, summary: UnitSummary) -> bool:
        """Draft blocks that close complete labels, save the result; return whether any closed."""
        changes, before = self._changes, self._closed
        read = {each.label for each in changes.closes} & before.reopened.keys()
        self._closed = replace(before, read_again=before.read_again | read)
        # An act does not see work units that are due again, so it closes only its own labels.
        again: tuple[LabelWindow, ...] = ()
        if self._commit.act is None:
            # The oldest labels that were read after they were reopened.
            due = sorted(self._closed.read_again)[:_MOST_LABELS]
            again = tuple(LabelWindow(label_start(at), before.reopened[at], at) for at in due)
        if changes.closes or again or changes.sweeps is not None:
            reached, watermark = self._reached(summary), self._watermark()
            for window in filter(self._is_meant, (*changes.closes, *again)):
                is_whole = self._is_complete(window, reached, watermark) and self._is_read(window)
                if changes.forced or is_whole:
                    self._close(writer, window)
            if changes.sweeps is not None:
                self._sweep(writer, windows_of(changes.sweeps), reached, watermark)
        self._keep()
        return self._closed.stretches != before.stretches

    def _sweep(
        self, writer: ChainWriter, windows: Windows, reached: int | None, watermark: int | None
    ) -> None:
        """Close the windows, oldest first, up to the first one that is not complete.

        A window that no run has read, or that was skipped, is left out. If ``from`` was moved to an
        earlier time, the windows that this added are closed in the same way.
        """
        row = self._tx.row(sql.LOWEST, self._job)
        if row is None:
            return
        first, begins, low = windows.at(row[0]).low, self._closed.begins, self._closed.next_low
        if low is None or begins is None:
            low = begins = first
        judge = (reached, watermark)
        if first < begins and self._close_from(writer, windows, first, begins, judge) >= begins:
            begins = first
        low = self._close_from(writer, windows, low, None, judge)
        self._closed = replace(self._closed, next_low=low, first_low=begins)

    def _close_from(
        self,
        writer: ChainWriter,
        windows: Windows,
        low: int,
        until: int | None,
        judge: tuple[int | None, int | None],
    ) -> int:
        """Close windows from ``low`` on, until one is not complete or begins at ``until``.

        Returns:
            The begin of the next window.
        """
        for _ in range(_MOST_LABELS):
            place = windows.at(low)
            window = LabelWindow(place.low, place.high, label_text(place.low))
            if (until is not None and low >= until) or not self._is_complete(window, *judge):
                break
            waits = until is not None and window.label in self._closed.reopened
            if not waits and self._is_read(window):
                self._close(writer, window)
            low = window.high
            if until is not None:  # closed time around the window is done
                around = (
                    each for each in self._closed.stretches if each.low <= place.low < each.high
                )
                low = max((each.high for each in around), default=low)
        return low

    def _close(self, writer: ChainWriter, window: LabelWindow) -> None:
        if not self._closed.is_closed(window):
            writer.draft(self._event(CLOSE_BOOKS, window))
            self._closed = self._closed.with_closed(window)
            self._mark(window, "CLOSED")

    def _is_read(self, window: LabelWindow) -> bool:
        """Return whether work units cover a window, and none of them was skipped."""
        return self._has(COMMITTED, window) and not self._has(SKIPPED, window)

    def _has(self, status: str, window: LabelWindow) -> bool:
        """Return whether a work unit with this status overlaps a window.

        Partitions adjoin each other, so only the last such work unit that begins before the
        window's end is looked up.
        """
        row = self._tx.row(sql.LAST_WITH_STATUS, self._job, status, window.high)
        return row is not None and row[0] > window.low

    def _is_meant(self, window: LabelWindow) -> bool:
        """Return whether a label in ``closes`` may be closed now.

        If this commit sweeps, it leaves labels that no sweep has reached yet to the sweep.
        """
        if self._changes.sweeps is not None:
            come = self._closed.next_low
            return come is not None and window.low < come
        return not self._changes.again or window.label in self._closed.reopened

    def _is_complete(self, window: LabelWindow, reached: int | None, watermark: int | None) -> bool:
        is_committed = reached is not None and window.high + self._changes.wait_ms <= reached
        return is_committed and (watermark is None or window.high <= watermark)

    def _reached(self, summary: UnitSummary) -> int | None:
        """Return the time up to which all is committed, epoch ms UTC, except in closed labels."""
        frontier = open_frontier(self._tx, self._job, self._closed, summary)
        if frontier is None:
            return None
        limits = [frontier, self._commit.horizon]
        if self._commit.run.left_low is not None:
            limits.append(self._commit.run.left_low)
        return min(limits)

    def _watermark(self) -> int | None:
        """Return the event-time watermark after this commit, epoch ms UTC.

        It is None if labels do not wait for a watermark.
        """
        if not self._changes.by_event_time:
            return None
        members = self._commit.checkpoints.get(EVENT_TIME, {})
        if "watermark" not in members:
            members = details.checkpoint(self._tx, self._job, EVENT_TIME)
        found = members.get("watermark")
        return found if isinstance(found, int) else _FIRST

    def _event(self, kind: str, window: LabelWindow) -> ConfigEvent:
        return ConfigEvent(kind, event_body(window, self._changes.reason))

    def _mark(self, window: LabelWindow, state: str) -> None:
        if self._changes.marks:
            at, is_by_hand = self._commit.system_time, self._changes.reason is not None
            waits = is_by_hand and state == "REOPENED"
            self._marks.append([window.label, window.low, window.high, state, at, waits])

    def _keep(self) -> None:
        members = self._closed.members()
        if self._marks:
            waiting = cast("Sequence[object]", self._before.get("marks") or ())
            members = {**members, "marks": cast("JsonObject", [*waiting, *self._marks])}
        if any(self._before.get(name) != value for name, value in members.items()):
            details.change_checkpoint(self._tx, self._job, CLOSED_LABELS, members)


def event_body(window: LabelWindow, reason: str | None) -> JsonObject:
    """Return the event fields that close or reopen a label; ``windowEnd`` is epoch ms UTC."""
    return {"timelabel": window.label, "windowEnd": window.high, "reason": reason}


def open_frontier(
    tx: Transaction, job: str, closed_labels: ClosedLabels, summary: UnitSummary
) -> int | None:
    """Return the smallest start, epoch ms UTC, of an open work unit outside closed time.

    If there is none, return the largest high. An open work unit in a closed label stays as it is,
    and does not keep later labels open.
    """
    low = _lowest_open(tx, job, _FIRST, _FIRST)
    for each in closed_labels.stretches:
        if low is None or low < each.low:
            break
        if low < each.high:
            low = _lowest_open(tx, job, each.low, each.high)
    return summary.max_high if low is None else low


def _lowest_open(tx: Transaction, job: str, low: int, high: int) -> int | None:
    """Return the first start, from ``low`` on, of an open work unit that ends after ``high``."""
    rows = (tx.row(sql.LOWEST_OPEN_OUTSIDE, job, status, low, high) for status in OPEN)
    return min((row[0] for row in rows if row is not None), default=None)
