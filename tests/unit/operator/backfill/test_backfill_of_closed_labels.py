"""A backfill of closed timelabels is refused, or reopens them, as the job says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.errors import StateError
from tests.backfills import Backfills
from tests.servers.http_server import HttpServer
from tests.stories import Story, day

FIRST = "20200101000000"


def closed_story(folder: Path, source: HttpServer, after_close: str) -> Story:
    story = Story(
        folder,
        source,
        ms__publish__mode="window_replace",
        ms__timelabel__schedule="@daily",
        ms__timelabel__close="auto",
        ms__late__after__close=after_close,
    )
    story.run(day(2))
    return story


def events(story: Story) -> list[str]:
    with story.store() as store:
        kept = [block["event"] for block in store.blocks()]
    return [f"{each['kind']} {each.get('timelabel', '')}".strip() for each in reversed(kept)]


@pytest.mark.parametrize("after_close", ["reject", "side_table"])
def test_rows_of_a_backfill_for_a_closed_label_are_refused(
    tmp_path: Path, source: HttpServer, after_close: str
):
    story = closed_story(tmp_path, source, after_close)
    backfills, rows = Backfills(story, 2), story.rows()
    definition = backfills.take(range(1))
    with pytest.raises(StateError, match=f"closed timelabels.*{FIRST}") as caught:
        backfills.publish(definition)
    assert "Reopen those labels" in caught.value.fix
    assert story.rows() == rows
    story.head()


def test_a_backfill_reopens_a_closed_label_and_closes_it_again(tmp_path: Path, source: HttpServer):
    story = closed_story(tmp_path, source, "reopen")
    backfills, rows, before = Backfills(story, 2), story.rows(), len(events(story))
    backfills.publish(backfills.take(range(1)))
    assert events(story)[before:] == [
        "ResetState",
        "AddData",
        f"ReopenBooks {FIRST}",
        f"CloseBooks {FIRST}",
    ]
    assert story.rows() == rows
    story.head()
