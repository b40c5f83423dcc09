"""``dil backfill`` on the command line: what it refuses, shows and prints, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dil.cli.main import main
from tests.backfills import Backfills, correct, notes_of, source_notes
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, snapshot, work_unit

pytestmark = pytest.mark.slow

FOUR = "2020-01-05T00:00:00Z"
DAYS = ("--from", "2020-01-02", "--to", "2020-01-04")


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    found = Story(tmp_path, source, ms__publish__mode="window_replace")
    found.run(day(4))
    return found


class Command:
    """Calls ``dil backfill`` about the story's job; ``error`` is what it wrote on stderr."""

    def __init__(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = str(story.folder / "orders.conf")
        self._capsys = capsys
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        """Call it; ``JOB`` among the words is the job file."""
        self._capsys.readouterr()
        arguments = [self._path if word == "JOB" else word for word in words]
        assert main(["backfill", *arguments]) == code
        told = self._capsys.readouterr()
        self.error = told.err
        return told.out

    def json(self, *words: str, code: int = 0) -> dict:
        """Call it with --json."""
        return json.loads(self(*words, "--json", code=code))


@pytest.fixture
def backfill(story: Story, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(story, capsys)


# Plans


def test_a_plan_names_the_work_units_and_reads_and_keeps_nothing(
    story: Story, backfill: Command
) -> None:
    before, asked = snapshot(story.folder / "lake"), len(story.source.requests)

    told = backfill.json("JOB", *DAYS, "--now", FOUR, "--plan")
    text = backfill("JOB", *DAYS, "--now", FOUR, "--plan")

    assert [unit["signature"] for unit in told["work_units"]] == [
        work_unit(number, unit) for number in (1, 2) for unit in ("a", "b")
    ]
    assert (told["job"], told["skipped"], told["backfill"]) == ("orders", 0, None)
    assert "4 due" in text
    assert (snapshot(story.folder / "lake"), len(story.source.requests)) == (before, asked)


def test_the_options_may_stand_before_the_job_file(backfill: Command) -> None:
    assert backfill.json("--now", FOUR, *DAYS, "--plan", "JOB")["work_units"]


def test_a_unit_is_given_as_signatures_show_it(backfill: Command) -> None:
    told = backfill.json("JOB", *DAYS, "--now", FOUR, "--plan", "--unit", '{ "unit": "b" }')

    assert {unit["unit"]["unit"] for unit in told["work_units"]} == {"b"}


def test_a_partition_that_the_range_only_touches_is_read_whole(backfill: Command) -> None:
    bounds = ("--from", "2020-01-02T12:00:00Z", "--to", "2020-01-02T13:00:00Z")

    told = backfill.json("JOB", *bounds, "--now", FOUR, "--plan")

    assert {(unit["low"], unit["high"]) for unit in told["work_units"]} == {(day(1), day(2))}


def test_the_plan_tells_which_backfill_the_same_command_goes_on_with(
    story: Story, backfill: Command
) -> None:
    begun = Backfills(story, 4).begin(range(1, 3))

    assert backfill.json("JOB", *DAYS, "--now", FOUR, "--plan")["backfill"] == begun.id


# Wrong input


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("--from", "2020-01-04", "--to", "2020-01-02"), "--from"),
        (("--from", "2020-01-02", "--to", "2020-01-02"), "--from"),
        (("--from", "2019-12-31", "--to", "2020-01-02"), "--from"),
        (("--from", "2020-01-02", "--to", "2020-02-02"), "--to"),
        (("--from", "soon", "--to", "2020-01-02"), "--from"),
        ((*DAYS, "--unit", '{"unit":"z"}'), "--unit"),
        ((*DAYS, "--unit", "z"), "--unit"),
    ],
)
@pytest.mark.parametrize("plan", [("--plan",), ()])
def test_a_range_or_unit_that_the_job_does_not_have_is_refused(
    words: tuple[str, ...], key: str, plan: tuple[str, ...], story: Story, backfill: Command
) -> None:
    told = backfill("JOB", *words, "--now", FOUR, *plan, code=2)

    assert told == "" or plan == ()
    assert key in backfill.error
    assert "DIL-CONFIG" in backfill.error
    assert not (story.folder / "lake" / "_backfill").exists()


def test_a_refusal_has_a_report_as_well(backfill: Command) -> None:
    told = backfill.json("JOB", "--from", "2020-01-04", "--to", "2020-01-02", "--now", FOUR, code=2)

    assert (told["status"], told["backfill"]) == ("failed", None)
    assert told["failures"][0]["code"] == "DIL-CONFIG"


def test_a_report_names_the_backfill_that_a_wrong_now_did_not_resume(
    story: Story, backfill: Command
) -> None:
    begun = Backfills(story, 4).begin(range(1, 3))

    told = backfill.json("resume", "JOB", begun.id, "--now", "soon", code=2)

    assert (told["job"], told["backfill"]) == ("orders", begun.id)
    assert told["failures"][0]["code"] == "DIL-CONFIG"


def test_what_no_run_has_read_yet_is_refused(backfill: Command) -> None:
    words = ("--from", "2020-01-05", "--to", "2020-01-06", "--now", "2020-01-07T00:00:00Z")

    backfill("JOB", *words, "--plan", code=2)

    assert "no run has read anything yet" in backfill.error


@pytest.mark.parametrize("verb", ["resume", "diff", "publish", "undo", "drop"])
def test_an_unknown_id_is_refused(verb: str, backfill: Command) -> None:
    backfill(verb, "JOB", "20200101T000000Z-nobody", code=2)

    assert '"20200101T000000Z-nobody" is no backfill of orders' in backfill.error


def test_a_misspelt_verb_is_no_job_file(backfill: Command) -> None:
    backfill("pubish", "JOB", "x", code=2)

    assert 'Did you mean "publish"?' in backfill.error


def test_what_was_not_published_cannot_be_undone(story: Story, backfill: Command) -> None:
    begun = Backfills(story, 4).take(range(1, 3))

    backfill("undo", "JOB", begun.id, "--yes", code=2)

    assert "there are no rows to bring back" in backfill.error


def test_an_incomplete_backfill_is_published_in_part_alone(
    story: Story, source: HttpServer, backfill: Command
) -> None:
    backfills = Backfills(story, 4)
    begun = backfills.begin(range(1, 3))

    assert "cannot be published in this way" in backfill("publish", "JOB", begun.id)
    backfill("publish", "JOB", begun.id, "--yes", code=1)
    assert "is not complete: 4 work units of 4 not read" in backfill.error
    backfills.read(begun)
    correct(source, "a", 5)
    assert backfill.json("publish", "JOB", begun.id, "--yes")["applied"] is True


def test_both_ways_to_append_exclude_each_other(story: Story, backfill: Command) -> None:
    begun = Backfills(story, 4).take(range(1, 3))

    backfill("publish", "JOB", begun.id, "--append", "--replace", code=2)
    backfill("publish", "JOB", begun.id, "--append", code=2)

    assert "ms.publish.mode is window_replace" in backfill.error


def test_an_appending_job_needs_a_decision(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(tmp_path / "appends", source, ms__publish__mode="append")
    story.run(day(4))
    begun = Backfills(story, 4).take(range(1, 3))
    backfill = Command(story, capsys)

    assert backfill.json("publish", "JOB", begun.id)["needs"] == ["--append", "--replace"]
    backfill("publish", "JOB", begun.id, "--yes", code=2)
    assert "--append or --replace" in backfill.error
    assert backfill.json("publish", "JOB", begun.id, "--yes", "--replace")["applied"] is True


# What it prints


def test_every_verb_tells_people_what_happened(
    story: Story, source: HttpServer, backfill: Command
) -> None:
    backfills = Backfills(story, 4)
    correct(source, "a", 5)
    begun = backfills.take(range(1, 3))

    assert f"{begun.id}  complete" in backfill("list", "JOB")
    assert "rows now" in backfill("diff", "JOB", begun.id)
    assert "nothing was changed; --yes does it" in backfill("publish", "JOB", begun.id)
    assert "takes it back" in backfill("publish", "JOB", begun.id, "--yes")
    assert notes_of(story) == source_notes(source, range(4))
    assert "published already" in backfill("publish", "JOB", begun.id, "--yes")
    backfill("diff", "JOB", begun.id, code=2)
    assert "takes back backfill" in backfill("undo", "JOB", begun.id)
    assert "done in block" in backfill("undo", "JOB", begun.id, "--yes")
    assert "undone already" in backfill("undo", "JOB", begun.id, "--yes")
    assert "nothing was changed" in backfill("drop", "JOB", begun.id)
    assert "dropped" in backfill("drop", "JOB", begun.id, "--yes")
    assert "no backfill is kept" in backfill("list", "JOB")


def test_the_log_of_the_state_names_the_act(story: Story, backfill: Command, capsys) -> None:
    begun = Backfills(story, 4).take(range(1, 3))
    backfill("publish", "JOB", begun.id, "--yes", "--reason", "a wrong currency")

    assert main(["state", "log", str(story.folder / "orders.conf")]) == 0
    assert "reason: a wrong currency" in capsys.readouterr().out


def test_an_undo_that_is_not_the_last_act_is_refused(
    story: Story, source: HttpServer, backfill: Command
) -> None:
    backfills = Backfills(story, 4)
    begun, other = backfills.take(range(1, 2)), backfills.take(range(2, 3))
    backfills.publish(begun)
    backfills.publish(other)

    backfill("undo", "JOB", begun.id, "--yes", code=1)

    assert "is not the last act" in backfill.error
    backfill("undo", "JOB", other.id, "--yes")
    backfill("undo", "JOB", begun.id, "--yes", code=1)
