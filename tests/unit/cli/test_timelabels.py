"""``dil timelabels``: listing, dropping, reopening and rotating the labels of a warehouse table."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.model.report import RunStatus
from tests.servers.http_server import HttpServer
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day

FIRST, SECOND = "20200101000000", "20200102000000"


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(
        tmp_path,
        source,
        ms__warehouse__url="sqlite:///warehouse.db",
        ms__warehouse__table__kind="timeseries",
        ms__timelabel__schedule="10 0 * * *",
        ms__grace__period__days="1",
    )


class Dil:
    def __init__(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = str(story.folder / "orders.conf")
        self._capsys = capsys
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        verbs, options = words[:1], words[1:]
        if words[:1] and words[0].startswith("-"):
            verbs, options = (), words
        assert main(["timelabels", *verbs, self._path, *options]) == code
        told = self._capsys.readouterr()
        self.error = told.err
        return told.out

    def json(self, *words: str):
        return json.loads(self(*words, "--json"))


@pytest.fixture
def dil(story: Story, capsys: pytest.CaptureFixture[str]) -> Dil:
    return Dil(story, capsys)


def query(story: Story, statement: str) -> list[tuple]:
    connection = sqlite3.connect(story.folder / "warehouse.db")
    try:
        with connection:
            return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_labels_are_listed_with_window_state_and_rows(story: Story, dil: Dil) -> None:
    story.job()
    assert "no timelabel is known yet" in dil()
    story.run(day(2))

    found = dil.json()
    assert (found["table"], found["view"]) == ("orders", "orders_view")
    first, second = found["labels"]
    assert first["timelabel"] == FIRST
    assert (first["start"], first["end"]) == (day(0), day(1))
    assert (first["state"], first["rows"]) == ("LOADED", 2 * ROWS_PER_DAY)
    assert (first["object"], first["attempt"]) == (f"_orders_{FIRST}", 1)
    assert first["loaded_at"] == story.clock
    assert second["timelabel"] == SECOND
    assert f"{SECOND}  2020-01-02 00:00" in dil()


def test_a_dropped_label_is_gone_and_the_chain_tells(story: Story, dil: Dil) -> None:
    story.run(day(2))

    assert "nothing was changed; --yes does it" in dil("drop", FIRST)
    assert len(query(story, "SELECT * FROM orders_view")) == 4 * ROWS_PER_DAY
    assert dil.json("drop", FIRST, "--yes", "--reason", "too old")["dropped"] is True

    assert query(story, "SELECT DISTINCT _timelabel FROM orders_view") == [(SECOND,)]
    assert [each["state"] for each in dil.json()["labels"]] == ["DROPPED", "LOADED"]
    head = story.head()
    assert head is not None
    with story.store() as store:
        acts = [block["event"].get("act") for block in store.blocks()]
    assert "drop" in acts


def test_labels_are_dropped_by_their_end(story: Story, dil: Dil) -> None:
    story.run(day(3))
    dil("drop", "--before", "2020-01-03", "--yes")
    assert [each["state"] for each in dil.json()["labels"]] == ["DROPPED", "DROPPED", "LOADED"]


def test_a_dropped_label_is_loaded_again_once_it_is_reopened(story: Story, dil: Dil) -> None:
    story.run(day(2))
    dil("drop", SECOND, "--yes")
    refused = story.run(day(3))
    assert refused.status is RunStatus.FAILED
    assert "dil timelabels reopen" in refused.failures[0].error + str(refused.failures)

    dil("reopen", SECOND, "--yes")
    assert story.run(day(3)).status is RunStatus.SUCCESS
    counts = query(story, "SELECT _timelabel, COUNT(*) FROM orders_view GROUP BY 1 ORDER BY 1")
    assert [count for _, count in counts] == [2 * ROWS_PER_DAY] * 3


def test_a_label_without_rows_is_dropped_like_others(story: Story, dil: Dil, source) -> None:
    story.run(day(2))
    for held in source.dataset.units.values():
        low, high = held.window(day(1), day(2))
        del held.times[low:high], held.encoded[low:high]
    story.run(day(2) + STEP_MS)
    assert [each["rows"] for each in dil.json()["labels"]] == [2 * ROWS_PER_DAY, 0]

    assert "DROPPED" in dil("drop", SECOND, "--yes")

    assert [each["state"] for each in dil.json()["labels"]] == ["LOADED", "DROPPED"]
    tables = query(story, "SELECT name FROM sqlite_master WHERE name LIKE '%0000'")
    assert tables == [(f"_orders_{FIRST}",)]
    assert len(query(story, "SELECT * FROM orders_view")) == 2 * ROWS_PER_DAY


def test_a_label_is_shown_as_it_is_once_it_was_changed(story: Story, dil: Dil) -> None:
    story.run(day(2))

    assert dil.json("reopen", SECOND, "--yes")["labels"][0]["state"] == "REOPENED"
    assert f"{SECOND}  2020-01-02" in dil()
    assert "loaded again" not in dil()
    story.run(day(3))
    assert "REOPENED, loaded again" in dil()
    assert dil.json("drop", SECOND, "--yes")["labels"][0]["state"] == "DROPPED"


@pytest.mark.parametrize("words", [["drp", "orders.conf"], ["lst"]])
def test_a_misspelt_verb_is_told(
    words: list[str], story: Story, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    story.job()
    monkeypatch.chdir(story.folder)
    assert main(["timelabels", *words]) == 2
    assert "Did you mean" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("drop",), "needs to know which"),
        (("drop", "2020"), "is no timelabel"),
        (("drop", "20200231000000"), "is no timelabel"),
        (("drop", "20200101000030"), "is no timelabel"),
        (("reopen", "20300101000000"), "is no label of this table"),
        (("rotate",), "its table is always empty"),
    ],
)
def test_what_cannot_be_done_is_told(story: Story, dil: Dil, words, told) -> None:
    story.run(day(2))
    dil(*words, code=2)
    assert told in dil.error


def test_a_job_without_labels_has_none_to_list(story: Story, dil: Dil) -> None:
    story.job(ms__warehouse__table__kind="regular", ms__timelabel__schedule="")
    dil(code=2)
    assert "ms.timelabel.schedule" in dil.error


def test_a_table_of_events_is_rotated_into_the_label_of_the_period_that_is_over(
    story: Story, dil: Dil
) -> None:
    story.changes |= {"ms__warehouse__table__kind": "regular", "ms__publish__mode": "append"}
    story.job()
    dil("rotate", code=1)
    assert "there is no table" in dil.error
    assert "extract.table.name" in dil.error
    query(story, "CREATE TABLE orders (id INTEGER)")
    query(story, "INSERT INTO orders VALUES (1), (2)")

    found = dil.json("rotate", "--now", "2020-01-02T05:00:00Z")

    assert (found["timelabel"], found["rotated"]["rows"]) == (FIRST, 2)
    assert query(story, "SELECT _timelabel, id FROM orders_view") == [(FIRST, 1), (FIRST, 2)]
    assert "nothing to rotate" in dil("rotate", "--now", "2020-01-03T05:00:00Z")


def test_each_run_of_work_units_without_a_time_has_a_reading_of_its_own(story: Story) -> None:
    story.changes |= {
        "ms__watermark": '[{"name": "unit", "type": "unit", "units": "a"}]',
        "ms__work__unit__partition": "none",
        "ms__parameters": '[{"name": "unit"}, {"name": "cursor", "type": "session"}]',
        "ms__grace__period__days": "0",
    }
    assert story.run(day(2)).status is RunStatus.SUCCESS
    again = story.run(day(3))

    assert again.status is RunStatus.SUCCESS
    counts = query(story, "SELECT _timelabel, COUNT(*) FROM orders_view GROUP BY 1 ORDER BY 1")
    assert counts == [(FIRST, 6 * ROWS_PER_DAY), (SECOND, 6 * ROWS_PER_DAY)]
