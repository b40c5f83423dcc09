"""A publish that was begun is finished as it was decided, or not at all (rule C26)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dil import config
from dil.errors import CommitUnknownError
from dil.model.dataset import Intent, OperatorAct, RunWork, UnitEntry
from dil.model.destination import TableFormat, TableSpec
from dil.model.event_tally import EVENT_TIME
from dil.model.job import PublishingSpec, PublishMode
from dil.publishing.abandoning import abandon, finish_without_lost
from dil.publishing.destination import destination_for, destination_text
from dil.publishing.publisher import Publisher
from dil.publishing.results import FinishedUnit, PublishTarget
from dil.storage import LocalFilesystem, filesystem_for
from tests.jobs import write_job
from tests.servers.rows import DAY_MS, START_MS
from tests.unit.publishing.published import decided, report, staged_file, unit
from tests.unit.publishing.test_publisher import NOW, Orders, first_publish, leased

files = LocalFilesystem()

Change = Callable[[PublishingSpec], PublishingSpec]

CHANGES: dict[str, Change] = {
    "the mode": lambda spec: replace(spec, mode=PublishMode.REPLACE),
    "the table's format": lambda spec: replace(spec, table=TableSpec(TableFormat.DELTA)),
    "the folder": lambda spec: replace(spec, final_dir=f"{spec.final_dir}-new"),
    "the store": lambda spec: replace(spec, final_dir="s3://bucket/lake"),
}


class Crash(BaseException):
    """The driver is gone."""


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """Return a orders at which a second publish ended with its intent."""
    orders = first_publish(tmp_path / "job")

    def crash(*_: object) -> None:
        raise Crash

    with orders.store() as store, leased(store) as lease, monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", crash)
        with pytest.raises(Crash):
            orders.publisher(store).publish(lease, orders.commit("r2", "c.parquet"))
    return orders


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_under_another_destination_it_waits_and_says_for_what(
    begun: Orders, change: Change
) -> None:
    before, changed = begun.names(), change(begun.spec)
    now = filesystem_for(changed.final_dir)

    with begun.store() as store, leased(store) as lease:
        intent = store.pending_intent()
        assert intent is not None
        elsewhere = Publisher(replace(begun.job, publishing=changed), store, now)
        with pytest.raises(CommitUnknownError) as caught:
            elsewhere.finish_pending(lease)
        with pytest.raises(CommitUnknownError):
            finish_without_lost(elsewhere, lease, intent)
        known = destination_text(begun.spec, destination_for(begun.spec, files))
        assert known in caught.value.message
        assert destination_text(changed, destination_for(changed, now)) in caught.value.message
        assert store.pending_intent() == intent

        assert begun.names() == before
        assert begun.publisher(store).finish_pending(lease) == intent.commit
    assert begun.live() == begun.names() != before


@pytest.mark.parametrize("days", [-1, 1])
def test_without_lost_files_the_watermark_stays_below_all_that_is_still_to_be_read(
    begun: Orders, days: int
) -> None:
    """Below what lost its files, and below what the run left to the next one."""
    left_low = START_MS + days * DAY_MS
    with begun.store() as store, leased(store) as lease:
        intent = store.pending_intent()
        assert intent is not None
        commit = replace(intent.commit, run=replace(intent.commit.run, left_low=left_low))
        intent = replace(intent, commit=commit)
        store.replace_intent(lease, intent)
        Path(commit.moves[0].source).unlink()

        rest = finish_without_lost(begun.publisher(store), lease, intent)

    assert rest.commit.run.left_low == min(START_MS, left_low)


def test_without_lost_files_an_act_sets_no_watermark_beyond_what_is_still_to_be_read(
    tmp_path: Path,
) -> None:
    orders = first_publish(tmp_path / "job")
    staging = orders.folder / "lake" / "_staging" / "orders" / "act-1"
    units = [unit(number) for number in (1, 2)]
    target = PublishTarget("act-1", str(orders.dataset), (), (), system_time=NOW, horizon=NOW)
    found = [
        FinishedUnit(each, report(each, staged_file(staging, f"{each.low}.parquet")))
        for each in units
    ]
    entries = tuple(
        UnitEntry(each.signature, each.low, each.high, each.high, "COMMITTED", 1) for each in units
    )
    act = OperatorAct("backfill", "", entries, watermark=units[1].high, sets_watermark=True)
    commit = replace(decided(orders.job, target, found, files), run=RunWork(), act=act)
    with orders.store() as store, leased(store) as lease:
        intent = Intent(commit, lease.token, str(orders.dataset), 1)
        store.record_intent(lease, intent)
        Path(commit.moves[0].source).unlink()

        rest = finish_without_lost(orders.publisher(store), lease, intent).commit.act

    assert rest is not None
    assert (rest.changed, rest.watermark) == (entries[1:], units[0].low)


def test_rows_of_a_publish_that_is_given_up_do_not_move_the_event_watermark(begun: Orders) -> None:
    """Else they would be late when they are read again."""
    before = {"strategy": "none", "watermark": 1}
    with begun.store() as store, leased(store) as lease:
        intent = store.pending_intent()
        assert intent is not None
        store.change_checkpoint(lease, EVENT_TIME, before)
        moved = {EVENT_TIME: {"strategy": "none", "watermark": 9}}
        intent = replace(intent, commit=replace(intent.commit, checkpoints=moved))
        store.replace_intent(lease, intent)

        abandon(begun.publisher(store), lease, intent)

        assert store.checkpoint(EVENT_TIME) == before


def test_what_changes_no_place_does_not_hold_it_up(begun: Orders) -> None:
    with begun.store() as store, leased(store) as lease:
        spec = replace(begun.spec, file_mode=0o640)
        job = replace(begun.job, publishing=spec)
        assert Publisher(job, store, files).finish_pending(lease) is not None


def test_one_that_an_older_version_began_is_finished_with_what_the_job_says(begun: Orders) -> None:
    with begun.store() as store, leased(store) as lease:
        intent = store.pending_intent()
        assert intent is not None
        store.replace_intent(lease, replace(intent, destination=""))
        assert begun.publisher(store).finish_pending(lease) == intent.commit


def test_the_words_of_a_destination_hold_no_password(tmp_path: Path) -> None:
    spec = config.load(
        write_job(
            tmp_path,
            "http://x",
            ms__table__format="iceberg",
            ms__iceberg__catalog__uri="postgresql://me:secret@host/lake?password=secret",
        ),
        environ={},
    ).job.publishing

    text = destination_text(spec, destination_for(spec, files))

    assert "secret" not in text
    assert "ms.iceberg.catalog.uri=postgresql://host/lake" in text
