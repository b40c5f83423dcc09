"""Rows that an operator's act lets runs read again are not late, although the watermark has passed.

Each act is about the newest work units: no later success shows that DIL itself reads them late.
"""

from __future__ import annotations

import pytest

from dil.cli.main import main
from dil.publishing.publisher import Publisher
from tests.killed import killed
from tests.stories import Story, day, ids_of

EVENTS = {
    "ms__event__column": "updated_ms",
    "ms__event__watermark": "fixed_delay",
    "ms__event__delay": "PT1H",
    "ms__late__action": "drop",
}
ALL = ids_of("a", "b", days=range(3))


def act(story: Story, verb: str, *options: str) -> None:
    assert main(command(story, verb, *options)) == 0


def command(story: Story, verb: str, *options: str) -> list[str]:
    path = str(story.folder / "orders.conf")
    return ["state", verb, path, "--now", "2020-01-04T00:00:00Z", *options, "--yes"]


@pytest.mark.parametrize(
    ("partition", "action"), [("daily", "drop"), ("none", "drop"), ("daily", "fail")]
)
def test_the_newest_rows_are_forgotten_and_read_again(
    story: Story, partition: str, action: str
) -> None:
    story.changes.update(EVENTS, ms__work__unit__partition=partition, ms__late__action=action)
    story.run(day(3))

    act(story, "forget", "--all", "--withdraw-files")
    assert not story.rows()
    story.run(day(3))

    assert story.rows() == ALL


def test_the_newest_rows_are_taken_back_by_a_rewind_and_read_again(story: Story) -> None:
    story.changes.update(EVENTS)
    story.run(day(2))
    sequence = str(story.head()["sequenceNumber"])
    story.run(day(3))

    act(story, "rewind", "--to", sequence, "--withdraw-files")
    assert story.rows() == ids_of("a", "b", days=range(2))
    story.run(day(3))

    assert story.rows() == ALL


def test_what_undo_brought_back_may_be_forgotten_again(story: Story) -> None:
    story.changes.update(EVENTS)
    story.run(day(3))
    act(story, "forget", "--all", "--withdraw-files")

    act(story, "undo")
    assert story.rows() == ALL
    act(story, "undo")
    assert not story.rows()
    story.run(day(3))

    assert story.rows() == ALL


@pytest.mark.parametrize("step", ["carry_out", "append_block"])
def test_an_act_that_the_next_run_finishes_lets_it_read_the_rows(
    story: Story, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(EVENTS)
    story.run(day(3))
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, step, killed)
        assert main(command(story, "forget", "--all", "--withdraw-files")) == 1

    story.run(day(3))

    assert story.rows() == ALL
