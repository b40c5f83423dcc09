"""Which timelabels a run closes, in cases that other runs or an operator have prepared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dil.model.closed_labels import ClosedLabelChanges, LabelWindow
from dil.model.dataset import Commit, OperatorAct, RunWork, WorkUnitOutcome
from dil.model.event_tally import EVENT_TIME
from dil.model.job import StateSpec
from dil.model.timelabels import LabelClosing, TimelabelSpec
from dil.state import open_store
from dil.state.blocks.source_state import COMMITTED
from dil.state.blocks.verification import verify_chain
from dil.state.chain import label_closing
from dil.text.windows import label_text

DAY = 86_400_000
START = 1_704_067_200_000  # 2024-01-01T00:00:00Z
NOW = START + 400 * DAY
DAILY = ClosedLabelChanges(sweeps=TimelabelSpec(schedule="@daily", closing=LabelClosing.AUTO))


def window(day: int) -> LabelWindow:
    low = START + day * DAY
    return LabelWindow(low, low + DAY, label_text(low))


def outcomes(*days: int, ok: bool = True) -> tuple[WorkUnitOutcome, ...]:
    return tuple(
        WorkUnitOutcome(
            f"[watermark.dt.{low}, watermark.u.{{}}]", "u.{}", low, low + DAY,
            low + DAY if ok else None, 1,
        )
        for low in (START + day * DAY for day in days)
    )  # fmt: skip


class Job:
    """A job with daily timelabels."""

    def __init__(self, folder: Path) -> None:
        spec = StateSpec("sqlite", str(folder))
        self.store = open_store(spec, "orders", clock=lambda: NOW)
        self.lease = self.store.acquire_lease("r", lease_s=60)
        self.runs = 0

    def run(
        self, *days: int, labels: ClosedLabelChanges | None = DAILY, work: RunWork | None = None,
        **changes: object,
    ) -> list[str]:  # fmt: skip
        """Commit a run that read these days; return the labels that it closed and reopened."""
        self.runs += 1
        before = len(self.events())
        found = RunWork(outcomes(*days)) if work is None else work
        commit = Commit(f"r{self.runs}", "c", "dil/orders", (), (), "", NOW, NOW, found)
        self.store.commit(self.lease, replace(commit, closed_labels=labels, **changes))
        assert verify_chain(self.store).problems == ()
        return self.events()[before:]

    def events(self) -> list[str]:
        """Return, oldest first, which days were closed and reopened."""
        found = []
        for block in self.store.blocks():
            event = block["event"]
            if event["kind"] in ("CloseBooks", "ReopenBooks"):
                day = (event["windowEnd"] - START) // DAY - 1
                found.append(f"{event['kind'].removesuffix('Books')} {day}")
        return found[::-1]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    with job.store:
        yield job


def test_a_run_without_any_work_unit_closes_no_label(job: Job) -> None:
    assert job.run() == []
    assert job.run(0) == ["Close 0"]


def test_labels_before_the_first_one_are_closed_once_a_run_has_read_them(job: Job) -> None:
    assert job.run(5, 6) == ["Close 5", "Close 6"]
    assert job.run(2, 3) == ["Close 2", "Close 3"]  # from was moved to an earlier time
    assert job.run(7) == ["Close 7"]
    assert job.run(0) == ["Close 0"]


def test_earlier_labels_wait_for_the_one_that_failed(job: Job) -> None:
    job.run(5)
    failed = RunWork((*outcomes(2, 4), *outcomes(3, ok=False)))
    assert job.run(work=failed) == ["Close 2"]
    assert job.run(3) == ["Close 3", "Close 4"]


def test_labels_that_no_run_has_taken_yet_stay_open(job: Job) -> None:
    left = RunWork(outcomes(0, 2), left_low=START + DAY)
    assert job.run(work=left) == ["Close 0"]
    assert job.run(1) == ["Close 1", "Close 2"]


def test_a_label_of_a_missed_period_is_passed_over(job: Job) -> None:
    missed = replace(outcomes(1)[0], high=None)
    assert job.run(work=RunWork(outcomes(0, 2), skipped=(missed,))) == ["Close 0", "Close 2"]


def test_a_run_that_learned_nothing_about_event_time_keeps_to_the_known_watermark(
    job: Job,
) -> None:
    by_event_time = replace(DAILY, by_event_time=True)
    known = {EVENT_TIME: {"watermark": START + 2 * DAY}}
    assert job.run(0, 1, 2, labels=None, checkpoints=known) == []
    assert job.run(3, labels=by_event_time) == ["Close 0", "Close 1"]


def test_closing_a_closed_label_again_records_nothing(job: Job) -> None:
    job.run(0)
    by_force = ClosedLabelChanges(closes=(window(0), window(1)), forced=True)
    act = OperatorAct("close", "month end")
    assert job.run(work=RunWork(), labels=by_force, act=act) == ["Close 1"]


def test_a_long_history_is_closed_by_several_runs(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_closing, "_MOST_LABELS", 2)
    assert job.run(0, 1, 2, 3, 4) == ["Close 0", "Close 1"]
    assert job.run(5) == ["Close 2", "Close 3"]
    assert job.run(6) == ["Close 4", "Close 5"]


def reopen(job: Job, *days: int) -> None:
    by_hand = ClosedLabelChanges(reopens=tuple(map(window, days)), forced=True)
    found = job.run(work=RunWork(), labels=by_hand, act=OperatorAct("reopen", "corrections"))
    assert found == [f"Reopen {day}" for day in days]


def test_a_reopened_label_that_was_read_is_closed_when_an_earlier_one_stops_holding_it_back(
    job: Job,
) -> None:
    job.run(0, 1, 2)
    reopen(job, 0, 2)
    failed = RunWork((*outcomes(2), *outcomes(0, ok=False)))
    assert job.run(work=failed, labels=replace(DAILY, closes=(window(2),))) == []
    assert job.run(0, labels=replace(DAILY, closes=(window(0),))) == ["Close 0", "Close 2"]


@pytest.mark.parametrize("closing", [LabelClosing.AUTO, LabelClosing.MANUAL])
def test_a_label_reopened_under_a_longer_grace_period_is_closed_after_a_shorter_one(
    job: Job, closing: LabelClosing
) -> None:
    job.run(0, 1)
    labels = DAILY if closing is LabelClosing.AUTO else ClosedLabelChanges(again=True)
    longer = replace(labels, reopens=(window(1),), closes=(window(1),), wait_ms=5 * DAY)
    assert job.run(1, 2, labels=longer) == ["Reopen 1"]
    assert "Close 1" in job.run(3, labels=labels)


def test_a_backfill_of_another_label_does_not_close_one_with_a_forgotten_work_unit(
    job: Job,
) -> None:
    def halves(*numbers: int, ok: bool = True) -> tuple[WorkUnitOutcome, ...]:
        return tuple(
            replace(each, signature=f"{each.signature} {low}", low=low, expected_high=low + half)
            for each in outcomes(*numbers, ok=ok)
            for low in (each.low, each.low + half)
        )

    half = DAY // 2
    job.run(work=RunWork(halves(0, 1, 2)))
    reopen(job, 0, 1)
    failed = RunWork((*halves(1), *halves(0, ok=False)[:1]))
    assert job.run(work=failed, labels=replace(DAILY, closes=(window(1),))) == []
    forgotten = halves(1)[1]
    act = OperatorAct("forget", "corrections", removed=(forgotten.signature,))
    job.run(work=RunWork(), labels=None, act=act)

    (failed_one, *_) = job.store.unit_entries()
    read = replace(failed_one, status=COMMITTED, high=failed_one.expected_high)
    act = OperatorAct("backfill", "corrections", changed=(read,))
    closes = ClosedLabelChanges(closes=(window(0),))
    assert job.run(work=RunWork(), labels=closes, act=act) == ["Close 0"]
    assert job.run(work=RunWork((forgotten,))) == ["Close 1"]


def test_many_labels_that_were_read_again_are_closed_by_several_runs(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_closing, "_MOST_LABELS", 2)
    by_hand = ClosedLabelChanges(again=True)
    job.run(0, 1, 2, 3, labels=by_hand)
    forced = ClosedLabelChanges(closes=tuple(map(window, range(4))), forced=True)
    job.run(work=RunWork(), labels=forced, act=OperatorAct("close", "month end"))
    reopen(job, 0, 1, 2, 3)
    failed = RunWork((*outcomes(1, 2, 3), *outcomes(0, ok=False)))
    read = tuple(map(window, (1, 2, 3)))
    assert job.run(work=failed, labels=replace(by_hand, closes=read)) == []
    assert job.run(0, labels=by_hand) == ["Close 1", "Close 2"]
    assert job.run(4, labels=by_hand) == ["Close 3"]
