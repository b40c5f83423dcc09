"""The report of a run is kept in the state store, and shown with the run."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import StateError
from dil.run.kept_report import kept_report
from dil.state.store.sql_store import SqlStateStore
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, failing, work_unit


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


def test_the_report_of_a_run_is_kept_and_shown(
    story: Story, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    source.faults.append(failing(0, "a"))
    report = story.run(day(1))
    with story.store() as store:
        kept = kept_report(store, "run-1")
    assert kept is not None
    assert kept["status"] == report.status.value
    assert [each["signature"] for each in kept["failures"]] == [work_unit(0, "a")]
    assert "files" not in kept
    job = str(story.folder / "orders.conf")
    capsys.readouterr()
    assert main(["runs", "show", job, "run-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_float=Decimal)["report"] == kept
    assert main(["runs", "show", job, "run-1"]) == 0
    assert f"failure     {work_unit(0, 'a')}: " in capsys.readouterr().out


def test_a_run_with_nothing_due_keeps_no_report(story: Story) -> None:
    story.run(day(1))
    story.run(day(1))
    with story.store() as store:
        assert kept_report(store, "run-1") is not None
        assert kept_report(store, "run-2") is None


def test_a_report_that_cannot_be_kept_leaves_the_run_as_it_ended(
    story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise StateError("the disk is full")

    monkeypatch.setattr(SqlStateStore, "keep_run_detail", refuse)
    assert story.run(day(1)).exit_code == 0
    assert "the report was not kept in the state store: the disk is full" in caplog.text
