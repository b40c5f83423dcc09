"""The publish of a backfill that is given up: its rows stay, and it can be published again."""

from __future__ import annotations

from typing import Any

import pytest

from dil.cli.main import main
from dil.errors import LeaseHeldError, LeaseLostError, StateError
from dil.model.interval import DAY_MS
from dil.model.report import RunStatus
from dil.operator.backfill.publishing import drop
from dil.publishing import files, table_destination
from dil.publishing.publisher import Publisher
from tests.backfills import Backfills, correct, notes_of, source_notes
from tests.servers.http_server import HttpServer
from tests.stories import Story, day
from tests.table_readers import rows_of

MODES = {
    "window_replace": {"ms__publish__mode": "window_replace"},
    "merge": {
        "ms__publish__mode": "merge",
        "extract__primary__key__fields": "id,unit",
    },
}


@pytest.mark.parametrize("is_moved", [False, True], ids=["decided", "moved"])
@pytest.mark.parametrize("mode", MODES)
def test_a_backfill_whose_publish_is_given_up_is_published_again(
    story: Story,
    source: HttpServer,
    backfills: Backfills,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    *,
    is_moved: bool,
) -> None:
    story.changes.update(MODES[mode])
    story.run(day(4))
    before = notes_of(story)
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))
    put = files.place_files

    def die(*arguments: object) -> None:
        if is_moved:
            put(*arguments)
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(files, "place_files", die)
            with pytest.raises(KeyboardInterrupt):
                backfills.publish(definition)
        with pytest.raises(StateError):
            backfills.drop(definition)  # the publish can still be finished, and needs its files
        assert main(["runs", "abandon", str(story.folder / "orders.conf"), "--yes"]) == 0
        assert notes_of(story) == before

    backfills.publish(definition)
    assert notes_of(story) == source_notes(source, range(4))
    assert story.run(day(5)).status is RunStatus.SUCCESS
    assert notes_of(story) == source_notes(source, range(5))
    assert main(["state", "verify", str(story.folder / "orders.conf")]) == 0


def test_a_publish_that_stood_still_during_a_drop_publishes_nothing(
    story: Story, source: HttpServer, backfills: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(MODES["merge"])
    story.run(day(4))
    before = notes_of(story)
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))
    record = Publisher.publish

    def drop_first(*arguments: Any) -> Any:
        drop(story.job(), definition, lambda: backfills.clock() + DAY_MS)  # the leases are over
        return record(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", drop_first)
        with pytest.raises(LeaseLostError):
            backfills.publish(definition)

    assert notes_of(story) == before
    assert story.run(day(5)).status is RunStatus.SUCCESS
    assert main(["state", "verify", str(story.folder / "orders.conf")]) == 0


def test_a_drop_waits_for_a_run_only_if_a_publish_was_killed(
    story: Story, source: HttpServer, backfills: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(MODES["merge"])
    story.run(day(4))
    correct(source, "a", 5)
    killed, other = backfills.take(range(1, 3)), backfills.take(range(1, 2))

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", die)
        with pytest.raises(KeyboardInterrupt):
            backfills.publish(killed)
    with story.store() as store:
        lease = store.acquire_lease("r1", lease_s=60)
        backfills.drop(other)
        with pytest.raises(LeaseHeldError):
            backfills.drop(killed)
        store.release_lease(lease)
    backfills.drop(killed)
    assert backfills.known() == []


def test_a_reading_that_was_cut_off_while_it_published_is_finished_by_the_publish(
    story: Story, source: HttpServer, backfills: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(MODES["window_replace"])
    story.run(day(4))
    correct(source, "a", 5)
    definition = backfills.begin(range(1, 3))

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "place_files", die)
        backfills.read(definition)

    backfills.publish(definition)

    assert notes_of(story) == source_notes(source, range(4))


def test_so_is_one_of_a_table(
    story: Story, source: HttpServer, backfills: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(MODES["window_replace"], ms__table__format="delta")
    story.run(day(4))
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))
    put = table_destination.put_in_place

    def die(*arguments: object) -> None:
        put(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(table_destination, "put_in_place", die)
        with pytest.raises(KeyboardInterrupt):
            backfills.publish(definition)
    assert main(["runs", "abandon", str(story.folder / "orders.conf"), "--yes"]) == 0
    assert "corrected" not in notes(story).values()

    backfills.publish(definition)
    assert [key for key, note in notes(story).items() if note == "corrected"] == [("a", 5)]
    assert rows_of("delta", story.folder).num_rows == source_notes(source, range(4)).total()


def notes(story: Story) -> dict[tuple[str, int], str]:
    table = rows_of("delta", story.folder)
    return {(row["unit"], row["id"]): row["note"] for row in table.to_pylist()}
