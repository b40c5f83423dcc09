"""Commits to a table that another driver repeats, and commits without an answer."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from dil.errors import WriteError
from dil.model.job import PublishMode
from dil.publishing import delta_log, table_destination
from dil.publishing.table_destination import TableDestination
from tests.table_readers import FORMATS
from tests.unit.publishing.tables import Shop, orders

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", FORMATS)
def test_a_driver_that_slept_right_before_its_commit_does_not_repeat_that_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    shop = Shop(tmp_path, kind)
    shop.publish("r1", orders(1))
    intent = shop.intent("r2", shop.move("r2", orders(2)))
    put, versions = table_destination.put_in_place, []

    def sleep(*arguments: Any) -> None:
        put(*arguments)
        monkeypatch.undo()
        shop.destination().carry_out(intent)
        versions.append(shop.versions())

    monkeypatch.setattr(table_destination, "put_in_place", sleep)
    shop.destination().carry_out(intent)

    assert [shop.versions()] == versions
    assert shop.ids() == [1, 2]


@pytest.mark.parametrize("has_landed", [False, True])
def test_a_delta_commit_that_fails_counts_if_the_table_has_it_and_else_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_landed: bool
) -> None:
    shop = Shop(tmp_path, "delta")
    shop.publish("r1", orders(1))
    intent = shop.intent("r2", shop.move("r2", orders(2)))
    write = DeltaTable.create_write_transaction

    def broken(*given: Any, **kinds: Any) -> None:
        if has_landed:
            write(*given, **kinds)
        raise OSError("the disk is full")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", broken)
    with nullcontext() if has_landed else pytest.raises(WriteError):
        shop.destination().carry_out(intent)
    assert shop.ids() == ([1, 2] if has_landed else [1])
    monkeypatch.undo()

    shop.destination().carry_out(intent)

    assert shop.ids() == [1, 2]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_publish_that_is_finished_years_later_keeps_the_replaced_files_for_readers(
    tmp_path: Path, kind: str
) -> None:
    shop = Shop(tmp_path, kind, PublishMode.WINDOW_REPLACE)
    shop.publish("r1", orders(1))
    (old,) = shop.files()
    intent = shop.intent("r2", shop.move("r2", orders(2)), removes=[shop.live()["r1"]])
    assert intent.commit.system_time < (time.time() - 365 * 86_400) * 1000
    shop.destination().carry_out(intent)

    table = cast("TableDestination", shop.destination())
    deleted = table.vacuum(hours=168, now_ms=int(time.time() * 1000), is_look=False)

    assert str(old) not in deleted
    assert old.exists()
    assert shop.ids() == [2]


def test_the_whole_log_since_an_intent_is_synced_if_its_number_is_ahead_of_the_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, synced = Shop(tmp_path, "delta"), list[str]()
    monkeypatch.setattr(delta_log, "make_durable", lambda _, paths: synced.extend(paths))

    shop.destination().carry_out(replace(shop.intent("r1", shop.move("r1", orders(1))), sequence=9))

    written = [f"{version:020}.json" for version in range(2)]  # creates the table, then adds files
    assert {*written} <= {path.rpartition("/")[2] for path in synced}
