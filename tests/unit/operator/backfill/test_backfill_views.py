"""Backfills compared with what is live, dropped, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.errors import ConfigError, WriteError
from dil.model.report import RunStatus
from dil.storage import LocalFilesystem
from tests.backfills import Backfills, correct, late_row, notes_of, source_notes, take_away
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, work_unit


@pytest.fixture
def backfills(story: Story) -> Backfills:
    return Backfills(story, 4)


# Comparing


def test_the_difference_tells_rows_and_keys_by_work_unit(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["extract__primary__key__fields"] = "id,unit"
    story.changes["ms__output__system__columns"] = "_dil_run_id,_dil_extracted_at"
    story.run(day(4))
    correct(source, "a", 5)
    late_row(source, "b", 2, 900)
    take_away(source, "a", 9)
    definition = backfills.take(range(1, 3))

    found = backfills.compare(definition)

    told = {
        each.work_unit.signature: (each.before, each.after, each.by_key)
        for each in found.work_units
    }
    counts = {
        signature: (before, after, keys.added, keys.removed, keys.changed)
        for signature, (before, after, keys) in told.items()
        if keys is not None
    }
    assert counts == {
        work_unit(1, "a"): (4, 4, 0, 0, 1),
        work_unit(1, "b"): (4, 4, 0, 0, 0),
        work_unit(2, "a"): (4, 3, 0, 1, 0),
        work_unit(2, "b"): (4, 5, 1, 0, 0),
    }
    assert found.total is not None
    assert (found.total.added, found.total.removed, found.total.changed) == (1, 1, 1)


@pytest.mark.parametrize("form", ["AVRO", "ORC", "JSON", "CSV"])
def test_the_difference_is_the_same_in_every_format(
    story: Story, source: HttpServer, backfills: Backfills, form: str
) -> None:
    story.changes["extract__primary__key__fields"] = "id,unit"
    story.changes["writer__output__format"] = form
    story.run(day(4))
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))

    total = backfills.compare(definition).total

    assert total is not None
    assert (total.added, total.removed, total.changed, total.same) == (0, 0, 1, 15)
    backfills.publish(definition)
    assert story.run(day(5)).status is RunStatus.SUCCESS


def test_without_keys_the_difference_counts_rows(story: Story, backfills: Backfills) -> None:
    story.run(day(4))

    found = backfills.compare(backfills.take(range(1, 3)))

    assert [(each.before, each.after, each.by_key) for each in found.work_units] == [
        (4, 4, None)
    ] * 4
    assert found.notes


# Dropping


def test_drop_deletes_the_definition_last_so_that_it_can_be_repeated(
    story: Story, backfills: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(4))
    definition = backfills.take(range(1, 3))
    real = LocalFilesystem.delete_tree

    def delete_tree(self: LocalFilesystem, path: str) -> None:
        if (Path(path) / "backfill.json").exists():
            assert [each for each in Path(path).iterdir() if each.is_dir()] == []
            raise WriteError("the disk is away")
        real(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFilesystem, "delete_tree", delete_tree)
        with pytest.raises(WriteError):
            backfills.drop(definition)
    assert backfills.known() == [definition]

    backfills.drop(definition)
    assert backfills.known() == []


def test_drop_deletes_what_a_backfill_holds_and_keeps_what_it_published(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.run(day(4))
    correct(source, "a", 5)
    published, other = backfills.take(range(1, 3)), backfills.take(range(1, 2))
    backfills.publish(published)

    backfills.drop(other)
    backfills.drop(published)

    assert backfills.known() == []
    assert not (story.folder / "lake" / "_backfill").exists()
    assert notes_of(story) == source_notes(source, range(4))


# Refused jobs


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"state__store__enabled": "false"}, "state.store.enabled"),
        ({"ms__warehouse__url": "sqlite:////tmp/nowhere.db"}, "ms.warehouse.url"),
    ],
)
def test_a_job_that_cannot_have_backfills_is_refused(
    story: Story, backfills: Backfills, changes: dict[str, str], key: str
) -> None:
    story.changes.pop("ms__publish__mode")
    story.changes.update(changes)

    with pytest.raises(ConfigError) as refused:
        backfills.begin(range(1, 3))

    assert [problem.key for problem in refused.value.problems] == [key]
