"""A run whose block could not be appended makes no row visible."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dil import config
from dil.errors import StateError
from dil.model.report import RunStatus
from tests.jobs import write_job
from tests.stories import Story, day, ids_of

BLOCK = "UPDATE mc_block SET payload = x'7b7d' WHERE event_kind = '{}'"
DAMAGES = {
    "seed": BLOCK.format("Seed"),
    "source": BLOCK.format("SetPollingSource"),
    "newest block": BLOCK.format("AddData"),
    "missing block": "DELETE FROM mc_block WHERE event_kind = 'SetPollingSource'",
    "head": "UPDATE mc_head SET block_hash = 'f1220ab'",
    "missing head": "DELETE FROM mc_head",
}


@contextmanager
def damaged(story: Story, statement: str) -> Iterator[None]:
    """Change the state store outside of dil, and restore it at the end."""
    path = story.folder / "state" / "state.db"
    shutil.copy(path, story.folder / "copy.db")
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(statement).rowcount >= 1
    yield
    shutil.copy(story.folder / "copy.db", path)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("keeps_state", ["true", "false"])
def test_a_run_on_a_damaged_chain_makes_no_row_visible(
    keeps_state: str, name: str, story: Story
) -> None:
    story.run(day(1))
    path = write_job(story.folder, story.source.url, **story.changes)
    job = config.load(path, overrides={"state.store.enabled": keeps_state}, environ={}).job

    with damaged(story, DAMAGES[name]):
        report = story.run(day(2), job)

        assert [each.code for each in report.failures] == [StateError.code]
        assert story.rows() == ids_of("a", "b", days=range(1))

    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(2))
