"""Closing and reopening timelabels through the command line: a week of a daily job, and by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.model.report import RunStatus
from tests.closing_days import ClosingDays, label
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


class Dil:
    def __init__(self, days: ClosingDays, capsys: pytest.CaptureFixture[str]) -> None:
        self._path, self._capsys = str(days.path), capsys
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        place = next((n for n, word in enumerate(words) if word.startswith(("-", "2"))), len(words))
        assert main([*words[:place], self._path, *words[place:]]) == code
        told = self._capsys.readouterr()
        self.error = told.err
        return told.out

    def states(self) -> dict[str, str]:
        found = json.loads(self("timelabels", "--json"))
        return {each["timelabel"]: each["state"] for each in found["labels"]}


def test_a_week_of_daily_runs_closes_each_day_and_a_late_row_is_rejected_or_reopens_it(
    source, tmp_path: Path, capsys
):
    days = ClosingDays(tmp_path, source, ms__grace__period__days="1")
    dil = Dil(days, capsys)
    for day in range(7):
        days.fill(day)
        assert days.run(day + 1).status is RunStatus.SUCCESS
        assert days.closed(8) == list(range(day))
    listed = dil("timelabels")
    head, first = listed.splitlines()[1:3]
    assert head.split() == [
        "timelabel", "from", "to", "state", "rows", "table", "loaded", "closed"
    ]  # fmt: skip
    assert "CLOSED" in first
    assert first.index("CLOSED") == head.index("state")
    assert "LOADED" in listed.splitlines()[-1]
    assert dil.states() == {**{label(day): "CLOSED" for day in range(6)}, label(6): "LOADED"}

    assert "timelabels closed from 2020-01-01 00:00+00:00 to 2020-01-07" in dil("state", "show")
    kept = json.loads(dil("state", "show", "--json"))["timelabels"]
    assert kept == {"closed": [{"from": START_MS, "to": START_MS + 6 * DAY_MS}], "reopened": []}
    assert f"CloseBooks  {label(5)}" in dil("state", "log", "--limit", "1")

    dil("state", "forget", "--from", "2020-01-02", "--to", "2020-01-02T12:00:00Z", "--yes")
    days.fill(1, rows=4)
    now = ("--now", "2020-01-08T00:30:00Z")
    plan = dil("plan", *now)
    assert "left as they are, because their timelabels are closed" in plan
    assert json.loads(dil("plan", *now, "--json"))["closed_timelabels"] == [label(1)]
    days.run(7.5)
    assert 103 not in days.ids()

    reopening = (*now, "-D", "ms.late.after.close=reopen")
    assert label(1) in dil("plan", *reopening)
    assert json.loads(dil("plan", *reopening, "--json"))["reopened_timelabels"] == [label(1)]
    later = ClosingDays(
        tmp_path, source, ms__grace__period__days="1", ms__late__after__close="reopen"
    )
    later.run(7.5)
    assert 103 in later.ids()
    assert later.events()[-3:] == [f"ReopenBooks {label(1)}", "AddData", f"CloseBooks {label(1)}"]
    assert later.problems() == ()


@pytest.fixture
def manual(source, tmp_path: Path) -> ClosingDays:
    days = ClosingDays(tmp_path, source, ms__timelabel__close="manual")
    days.fill(0, 1)
    days.run(2)
    return days


def test_an_operator_closes_a_label_after_a_preview_and_undo_opens_it_again(manual, capsys):
    dil = Dil(manual, capsys)
    assert manual.closed(3) == []
    shown = dil("timelabels", "close", label(0))
    assert "to be closed" in shown
    assert "nothing was changed; --yes does it" in shown
    assert manual.closed(3) == []
    shown = dil("timelabels", "close", label(0), "--yes", "--reason", "month end")
    assert "close  1 timelabel to change" in shown
    assert "would" not in shown
    assert manual.closed(3) == [0]
    assert manual.events()[-2:] == ["ResetState close", f"CloseBooks {label(0)}"]
    assert dil.states() == {label(0): "CLOSED", label(1): "LOADED"}
    assert "nothing to change" in dil("timelabels", "close", label(0), "--yes")
    dil("state", "undo", "--yes")
    assert manual.closed(3) == []
    assert dil.states()[label(0)] == "REOPENED"
    dil("state", "undo", "--yes")
    assert manual.closed(3) == [0]
    assert manual.problems() == ()


def test_a_label_that_is_not_complete_is_closed_by_force_alone(source, tmp_path: Path, capsys):
    days = ClosingDays(
        tmp_path,
        source,
        ms__timelabel__close="manual",
        ms__work__unit__min__records="1",
        job__commit__policy="successful",
    )
    days.fill(0)
    days.run(2)
    dil = Dil(days, capsys)
    dil("timelabels", "close", label(1), "--yes", code=1)
    assert "1 work unit of 20200102000000 is not committed: [watermark.system." in dil.error
    dil("timelabels", "close", label(1), "--yes", "--force")
    assert days.closed(3) == [1]
    assert days.problems() == ()


def test_a_period_that_is_not_over_is_not_closed(manual, capsys):
    dil = Dil(manual, capsys)
    dil("timelabels", "close", label(2), "--yes", "--now", "2020-01-03T12:00:00Z", code=1)
    assert "the period of 20200103000000 ends at" in dil.error


def test_a_reopened_label_is_closed_again_when_it_was_read(manual, capsys):
    dil = Dil(manual, capsys)
    dil("timelabels", "close", label(0), label(1), "--yes")
    dil("timelabels", "reopen", label(0), "--yes")
    assert manual.closed(3) == [1]
    dil("state", "forget", "--from", "2020-01-01", "--to", "2020-01-01T12:00:00Z", "--yes")
    manual.fill(0, rows=4)
    manual.run(2)
    assert manual.ids() == [0, 1, 2, 3, 100, 101, 102]
    assert manual.closed(3) == [0, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("close", "20200101120000"), "begins inside the period 20200101000000"),
        (("close", "2020"), "is no timelabel"),
    ],
)
def test_what_is_no_label_of_the_job_is_refused(manual, capsys, words, message):
    dil = Dil(manual, capsys)
    dil("timelabels", *words, code=2)
    assert message in dil.error


def test_a_job_that_never_closes_labels_refuses_the_verbs(source, tmp_path: Path, capsys):
    days = ClosingDays(
        tmp_path, source, ms__timelabel__close="never", ms__late__after__close="side_table"
    )
    dil = Dil(days, capsys)
    dil("timelabels", "close", label(0), code=2)
    assert "ms.timelabel.close=manual" in dil.error


def test_a_job_that_never_closes_labels_lists_the_labels_that_it_published(
    source, tmp_path: Path, capsys
) -> None:
    days = ClosingDays(tmp_path, source, ms__timelabel__close="never", ms__late__after__close="")
    days.fill(0, 1)
    days.run(2)
    assert main(["timelabels", str(days.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["labels"]
    assert [(each["timelabel"], each["state"], each["rows"]) for each in found] == [
        (label(0), "LOADED", 3),
        (label(1), "LOADED", 3),
    ]


def test_a_job_without_a_schedule_is_told_that_it_has_no_timelabels(
    source, tmp_path: Path, capsys
) -> None:
    days = ClosingDays(
        tmp_path, source, ms__timelabel__schedule="", ms__timelabel__close="",
        ms__late__after__close="",
    )  # fmt: skip
    for words in ([], ["drop", label(0)], ["reopen", label(0)]):
        verb, labels = words[:1], words[1:]
        assert main(["timelabels", *verb, str(days.path), *labels]) == 2
        shown = capsys.readouterr().err
        assert "ms.timelabel.schedule" in shown
        assert "ms.warehouse.url" not in shown
