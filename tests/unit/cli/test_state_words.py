"""What ``dil state`` says of acts and of names that it does not know; what ``--help`` lists."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import StateError
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, work_unit

Call = Callable[..., tuple[str, str]]


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


@pytest.fixture
def state(story: Story, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(verb: str, *options: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert main(["state", verb, str(story.folder / "orders.conf"), *options]) == code
        told = capsys.readouterr()
        return told.out, told.err

    return call


def test_the_log_tells_an_act_with_its_id_its_reason_and_its_files(
    story: Story, state: Call
) -> None:
    story.changes["ms__timezone"] = "Europe/Berlin"
    story.run(day(2))
    options = ("--unit", '{"unit":"a"}', "--withdraw-files", "--reason", "two\nlines")
    told = json.loads(state("forget", *options, "--yes", "--json")[0])

    lines = state("log")[0].splitlines()

    assert lines[0] == "orders  times in Europe/Berlin, newest block first"
    assert "2 files taken out" in lines[1]
    assert f"ResetState  forget {told['act']}  2 files taken out  reason: two" in lines[2]
    assert "8 rows" not in lines[2]
    assert "16 rows  4 files added  watermark 2020-01-03 00:00+01:00" in lines[3]
    assert "head " in state("show")[0].splitlines()[1]
    hashes = [block["hash"] for block in json.loads(state("log", "--json")[0])]
    assert [line.split()[-1] for line in lines[1:]] == [each[:12] for each in hashes]


def test_json_tells_the_files_that_an_act_brings_back(story: Story, state: Call) -> None:
    story.run(day(2))
    options = ("--unit", '{"unit":"a"}', "--withdraw-files", "--yes", "--json")
    gone = json.loads(state("forget", *options)[0])["files"]
    assert (gone["fate"], gone["rows"]) == ("withdrawn from the dataset", 8)
    assert gone["brought_back"] == []

    back = json.loads(state("rewind", "--to", "3", "--json")[0])
    assert back["needs"] == []
    assert (back["files"]["fate"], back["files"]["rows"]) == ("brought back", 8)
    assert sorted(back["files"]["brought_back"]) == sorted(gone["uris"])
    assert "2 files with 8 rows: brought back" in state("rewind", "--to", "3")[0]
    assert "2 files with 8 rows: brought back" in state("undo")[0]


def test_a_time_before_the_chain_began_is_told_when_it_began(story: Story, state: Call) -> None:
    story.run(day(2))
    _, error = state("show", "--as-of", "1999-01-01", code=2)
    assert "the first block is of 2022-09-27 00:00+00:00, the newest block is" in error
    story.job(job__name="another")
    assert "the chain is empty" in state("show", "--as-of", "1999-01-01", code=2)[1]


def test_forgetting_a_unit_that_is_not_recorded_names_those_that_are(
    story: Story, state: Call
) -> None:
    story.run(day(2))
    _, error = state("forget", "--unit", '{"unit":"c"}', "--keep-files", code=1)
    assert 'no work unit of unit {"unit":"c"} is recorded' in error
    assert 'Recorded units: {"unit":"a"}, {"unit":"b"}.' in error


def test_a_job_that_was_forgotten_on_purpose_is_not_warned_of_lost_state(
    story: Story, state: Call, caplog: pytest.LogCaptureFixture
) -> None:
    story.run(day(1))
    state("forget", "--all", "--keep-files", "--yes")
    with caplog.at_level(logging.WARNING):
        story.run(day(1))
    assert "no run of this job has published" not in caplog.text

    story.changes["state__store__dir"] = str(story.folder / "elsewhere")
    (story.folder / "lake/shop/orders/_dil/owner.json").unlink()
    with pytest.raises(StateError, match="knows of no publish"):
        story.run(day(1))
    with caplog.at_level(logging.WARNING):
        story.run(day(1), accept_new_signatures=True)
    assert "4 files that no run of this job has published" in (caplog.text)
    assert story.states()[work_unit(0, "a")].status == "COMMITTED"


@pytest.mark.parametrize("group", [(), ("state",), ("runs",), ("secrets",)])
def test_the_list_of_commands_cuts_no_sentence_off(
    group: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*group, "--help"]) == 0
    commands = capsys.readouterr().out.partition("Commands:")[2]
    assert commands
    assert "..." not in commands.replace("ENC(...)", "")
