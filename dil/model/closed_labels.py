"""The closed timelabels of a job, and the changes that a commit makes to them (rules T30 to T33).

The stored words are others: the specification of the metadata chain calls the act a close of books.
So the kind of the checkpoint is ``books``, the events are CloseBooks and ReopenBooks, and intents
and saved plans have a member ``books``.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from dil.model.interval import Interval
from dil.model.json import JsonObject
from dil.model.timelabels import TimelabelSpec

# The kind of the checkpoint that keeps the closed labels, an index of the blocks that close and
# reopen them.
CLOSED_LABELS = "books"


class LabelWindow(msgspec.Struct, frozen=True, order=True, gc=False):
    """A timelabel with its window [low, high), epoch ms UTC."""

    low: int
    high: int
    label: str


@dataclass(frozen=True, slots=True)
class LabelMark:
    """The new state of a label for the registry; window and ``at`` are epoch ms UTC.

    ``state`` is CLOSED or REOPENED, since ``at``. If ``waits`` is true, the next run that reads the
    label loads all its rows again.
    """

    label: str
    low: int
    high: int
    state: str
    at: int
    waits: bool = False


@dataclass(frozen=True, slots=True)
class ClosedRows:
    """Rows of one work unit that went to the side table, because their timelabels are closed.

    ``judged_by`` is the digest of the closed labels that were used; ``rows`` has the number of rows
    by label, in order of time.
    """

    judged_by: str
    rows: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedLabelChanges:
    """The changes of a commit to the closed labels.

    ``reopens`` are labels whose rows the commit changes; the commit reopens the closed labels among
    them. ``closes`` are labels that may be closed after the commit, if they are complete then;
    reopened labels among them that are not are closed by a later run. If ``forced`` is true, labels
    are closed even if rows are missing. If ``again`` is true, only reopened labels are closed.
    ``sweeps`` is the schedule whose windows are closed as they become complete, None if no run
    closes windows by itself.

    A label is complete when the frontier is ``wait_ms`` past the label's end; ``wait_ms`` is the
    grace period in which runs read the label again by themselves. If ``by_event_time`` is true, the
    event-time watermark must also be past the label's end. ``marks`` says that a registry of labels
    must record these changes. ``reason`` is the reason that an operator gave.
    """

    reopens: tuple[LabelWindow, ...] = ()
    closes: tuple[LabelWindow, ...] = ()
    sweeps: TimelabelSpec | None = None
    wait_ms: int = 0
    forced: bool = False
    again: bool = False
    by_event_time: bool = False
    marks: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ClosedLabels:
    """The closed stretches of time, epoch ms UTC.

    The windows of a schedule adjoin each other, so the value stays small for a history of any
    length: ``stretches`` are of closed windows, ascending, with gaps between them.
    ``reopened`` has, by label, the window ends of labels that were reopened and not closed again.
    Runs have read the labels in ``read_again`` since they were reopened: they are closed when they
    are complete. Automatic closing continues with the window that starts at ``next_low``, None
    before the first window. Automatic closing began with the window at ``first_low``, None if its
    start was not kept.
    """

    stretches: Sequence[Interval] = ()
    reopened: Mapping[str, int] = field(default_factory=dict)
    read_again: frozenset[str] = frozenset()
    next_low: int | None = None
    first_low: int | None = None

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> ClosedLabels:
        """Return the closed labels in a checkpoint's members; no members, no closed labels."""
        reopened = dict(members.get("reopened", {}))
        return cls(
            stretches=tuple(Interval(low, high) for low, high in members.get("closed", ())),
            reopened=reopened,
            # An earlier release closes labels without changing this member.
            read_again=frozenset(members.get("readAgain", ())) & reopened.keys(),
            next_low=members.get("nextLow"),
            first_low=members.get("firstLow"),
        )

    def members(self) -> JsonObject:
        """Return the checkpoint members that store the closed labels."""
        return {
            "closed": [[each.low, each.high] for each in self.stretches],
            "reopened": dict(sorted(self.reopened.items())),
            "readAgain": sorted(self.read_again),
            "nextLow": self.next_low,
            "firstLow": self.first_low,
        }

    @property
    def begins(self) -> int | None:
        """Return the start of the first checked window, epoch ms UTC; None if there is none yet."""
        if self.first_low is not None or self.next_low is None:
            return self.first_low
        return min([self.next_low, *(each.low for each in self.stretches[:1])])

    def is_closed(self, window: Interval | LabelWindow) -> bool:
        """Return whether a stretch of time is closed as a whole."""
        place = bisect_right(self.stretches, window.low, key=lambda each: each.low)
        return place > 0 and window.high <= self.stretches[place - 1].high

    @property
    def digest(self) -> str:
        """Return a digest of the closed stretches; empty if nothing is closed."""
        if not self.stretches:
            return ""
        text = ",".join(f"{each.low}-{each.high}" for each in self.stretches)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def with_closed(self, window: LabelWindow) -> ClosedLabels:
        """Return the closed labels with a window closed."""
        low, high, kept = window.low, window.high, []
        for each in self.stretches:
            if each.high < low or each.low > high:
                kept.append(each)
            else:
                low, high = min(low, each.low), max(high, each.high)
        reopened = {label: end for label, end in self.reopened.items() if label != window.label}
        stretches = sorted([*kept, Interval(low, high)])
        left = self.read_again - {window.label}
        return replace(self, stretches=stretches, reopened=reopened, read_again=left)

    def with_reopened(self, window: LabelWindow) -> ClosedLabels:
        """Return the closed labels with a window open again."""
        kept: list[Interval] = []
        for each in self.stretches:
            if each.high <= window.low or each.low >= window.high:
                kept.append(each)
                continue
            parts = (Interval(each.low, window.low), Interval(window.high, each.high))
            kept += [part for part in parts if not part.is_empty]
        reopened = {**self.reopened, window.label: window.high}
        return replace(self, stretches=kept, reopened=reopened)
