"""Closed timelabels in every state store: what the rules close is closed, and no more."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from dil.model.closed_labels import CLOSED_LABELS, ClosedLabelChanges, ClosedLabels, LabelWindow
from dil.model.dataset import OperatorAct
from dil.model.timelabels import LabelClosing, TimelabelSpec
from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from dil.text.windows import label_text
from tests.contract.state_stores import DAY, START, commit_of, file, moves, outcome

DAYS, UNITS = 8, ("a", "b")
DAILY = TimelabelSpec(schedule="@daily", closing=LabelClosing.AUTO)


def window(day: int) -> LabelWindow:
    low = START + day * DAY
    return LabelWindow(low, low + DAY, label_text(low))


@dataclass
class Reference:
    """What is closed, one day after the other; ``watermark`` is in days."""

    statuses: dict[tuple[int, str], bool] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    reached: int = 0
    next_day: int | None = None

    def take(self, outcomes: dict[tuple[int, str], bool], watermark: int) -> list[str]:
        """Take a run's outcomes; return what it reopens and closes, in order."""
        touched = sorted({day for day, _ in outcomes})
        again = [day for day in touched if day in self.closed]
        self.closed -= set(again)
        self.statuses.update(outcomes)
        self.reached = max([self.reached, *(day + 1 for (day, _), ok in outcomes.items() if ok)])
        lowest_open = [
            day for (day, _), ok in self.statuses.items() if not ok and day not in self.closed
        ]
        frontier = min([*lowest_open, self.reached] if lowest_open else [self.reached])
        closes = [
            day
            for day in touched
            if self.next_day is not None
            and day < self.next_day
            and day < min(frontier, watermark)
            and self._is_read(day)
        ]
        day = min(day for day, _ in self.statuses) if self.next_day is None else self.next_day
        while day < min(frontier, watermark):
            closes += [day] if self._is_read(day) and day not in self.closed else []
            day += 1
        self.next_day = day
        self.closed |= set(closes)
        return [*(f"Reopen {day}" for day in again), *(f"Close {day}" for day in closes)]

    def _is_read(self, day: int) -> bool:
        return any(ok for (each, _), ok in self.statuses.items() if each == day)


def events(store: StateStore) -> list[str]:
    found = []
    for block in store.blocks():
        event = block["event"]
        if event["kind"] in ("CloseBooks", "ReopenBooks"):
            day = (event["windowEnd"] - START) // DAY - 1
            assert event["timelabel"] == window(day).label
            found.append(f"{event['kind'].removesuffix('Books')} {day}")
    return found[::-1]


@pytest.mark.parametrize("seed", range(4))
def test_what_runs_close_is_what_the_rules_close(store: StateStore, seed: int) -> None:
    rng, reference = random.Random(seed), Reference()
    lease = store.acquire_lease("r", lease_s=60)
    expected: list[str] = []
    watermark = 0
    for number in range(10):
        newest = min(DAYS, 1 + number)
        chosen = rng.sample(range(newest), rng.randint(1, min(3, newest)))
        outcomes = {(day, unit): rng.random() < 0.8 for day in chosen for unit in UNITS}
        watermark = max(watermark, rng.randint(0, DAYS))
        commit = commit_of(
            f"r{number}",
            *(
                outcome(day, unit=f'{{"u":"{unit}"}}', ok=ok, attempts=number + 1)
                for (day, unit), ok in outcomes.items()
            ),
            moves=moves(file(f"f{number}", run=f"r{number}")),
            schema="s1",
            checkpoints={"event_time": {"watermark": START + watermark * DAY}},
            closed_labels=ClosedLabelChanges(
                reopens=tuple(window(day) for day in sorted(chosen)),
                closes=tuple(window(day) for day in sorted(chosen)),
                sweeps=DAILY,
                by_event_time=True,
            ),
        )
        store.commit(lease, commit)
        expected += reference.take(outcomes, watermark)
        closed = ClosedLabels.of(store.checkpoint(CLOSED_LABELS))
        assert {day for day in range(DAYS) if closed.is_closed(window(day))} == reference.closed
        assert events(store) == expected
    assert verify_chain(store).problems == ()


def test_an_act_closes_and_reopens_by_force_and_is_one_commit(store: StateStore) -> None:
    lease = store.acquire_lease("r", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a")), schema="s1"))
    changes = ClosedLabelChanges(closes=(window(0), window(3)), forced=True, reason="month end")
    act = OperatorAct("close", "month end")
    commit = commit_of("close-1", act=act, closed_labels=changes)
    for _ in range(2):
        store.commit(lease, commit)
    assert events(store) == ["Close 0", "Close 3"]
    opened = ClosedLabelChanges(reopens=(window(3), window(2)), forced=True, reason="late")
    store.commit(lease, replace(commit, run_id="reopen-1", closed_labels=opened))
    assert events(store) == ["Close 0", "Close 3", "Reopen 3"]
    assert store.checkpoint(CLOSED_LABELS)["reopened"] == {window(3).label: window(3).high}
    assert verify_chain(store).problems == ()


def test_rows_of_the_registry_that_wait_are_kept_until_they_are_settled(store: StateStore) -> None:
    lease = store.acquire_lease("r", lease_s=60)
    changes = ClosedLabelChanges(sweeps=DAILY, marks=True)
    commit = commit_of("r1", outcome(0), moves=moves(file("a")), schema="s1", closed_labels=changes)
    store.commit(lease, commit)
    store.commit(lease, replace(commit_of("r2", outcome(1), moves=moves(file("b")), schema="s1"),
                                closed_labels=changes))  # fmt: skip
    marks = store.checkpoint(CLOSED_LABELS)["marks"]
    assert [(each[0], each[3]) for each in marks] == [
        (window(0).label, "CLOSED"),
        (window(1).label, "CLOSED"),
    ]
