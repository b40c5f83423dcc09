"""``dil compact`` on Delta and Iceberg tables: one version more, the same rows, old files gone."""

from __future__ import annotations

import json
import time
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from dil.errors import StateError
from dil.operator.amendments import (
    FileDecision,
    Selection,
    apply,
    open_session,
    propose_forget,
    propose_undo,
)
from dil.operator.compaction import CompactionRequest, compact
from dil.publishing.destination import destination_for
from dil.storage import filesystem_for
from tests.jobs import dataset, properties
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, ids_of
from tests.table_readers import (
    FORMATS,
    delta_table,
    files_of,
    iceberg_table,
    ids,
    rows_by_polars,
    rows_of,
)


def real_clock() -> int:
    """Return what the libraries date versions by, epoch ms UTC."""
    return time.time_ns() // 1_000_000


class TableStory(Story):
    def __init__(self, folder, source, kind, **changes):
        super().__init__(
            folder, source, ms__table__format=kind, **{"ms__publish__mode": "append", **changes}
        )
        self.kind = kind

    def compact(self, **wish):
        return compact(self.job(), CompactionRequest(clock=real_clock, **wish))

    def live(self):
        return files_of(self.kind, self.folder)

    def on_disk(self):
        return sorted(
            path
            for path in dataset(self.folder).rglob("*.parquet")
            if not {"_delta_log", "_dil"}.intersection(path.parts)
        )


@pytest.mark.parametrize("fields", ["", "unit"])
@pytest.mark.parametrize("kind", FORMATS)
def test_another_engine_reads_the_same_rows_from_fewer_files(kind, fields, tmp_path, source):
    story = TableStory(tmp_path, source, kind, ms__table__partition__fields=fields)
    for number in (2, 4):
        story.run(day(number))
    before = rows_of(kind, tmp_path).sort_by([("unit", "ascending"), ("id", "ascending")])
    assert len(story.live()) == 8

    outcome = story.compact()

    after = rows_of(kind, tmp_path).sort_by([("unit", "ascending"), ("id", "ascending")])
    assert after == before
    assert len(story.live()) == (2 if fields else 1)
    assert outcome.removed == 8
    polars = rows_by_polars(kind, tmp_path)
    assert Counter(zip(polars["unit"], polars["id"], strict=True)) == ids(before)
    # Readers of the version before still find its files.
    assert len(story.on_disk()) == 8 + len(story.live())
    story.run(day(5))
    assert ids(rows_of(kind, tmp_path)) == ids_of("a", "b", days=range(5))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_vacuum_deletes_what_only_old_versions_need(kind, tmp_path):
    units = ("a/b c", "x=y%")
    named = [{"name": "unit", "type": "unit", "units": ",".join(units)}]
    with HttpServer(Dataset.generate(16, units=units, step_ms=STEP_MS)) as source:
        story = TableStory(tmp_path, source, kind, ms__table__partition__fields="unit")
        dates = json.loads(properties(tmp_path, "")["ms.watermark"])[:1]
        story.changes["ms__watermark"] = json.dumps([*dates, *named])
        vacuumed(story, kind, units)


def vacuumed(story, kind, units):
    story.run(day(3))
    story.compact()
    assert len(story.on_disk()) == 8
    look = story.compact(vacuum_hours=0, is_dry_run=True)
    assert len([path for path in look.vacuumed if path.endswith(".parquet")]) == 6
    assert len(story.on_disk()) == 8
    assert story.compact(vacuum_hours=1).vacuumed == ()

    told = story.compact(vacuum_hours=0).vacuumed

    assert story.on_disk() == story.live()
    assert {path for path in told if path.endswith(".parquet")} == {
        path for path in look.vacuumed if path.endswith(".parquet")
    }
    assert story.compact(vacuum_hours=0).vacuumed == ()
    story.run(day(4))
    assert ids(rows_of(kind, story.folder)) == ids_of(*units, days=range(4))


def test_a_vacuum_that_was_cut_off_is_finished_and_needed_files_stay(tmp_path, source):
    story = TableStory(tmp_path, source, "iceberg")
    story.run(day(2))
    story.compact()
    old = [path for path in story.on_disk() if path not in story.live()]
    story.compact(vacuum_hours=0)
    for path in old[:2]:
        path.write_bytes(b"left by a crash")
    listed = dataset(tmp_path) / "_dil" / "vacuum.json"
    listed.write_text(json.dumps([str(path) for path in (*old, *story.live(), tmp_path / "x")]))
    (tmp_path / "x").write_text("not ours")
    story.compact(vacuum_hours=0)
    assert story.on_disk() == story.live()
    assert (tmp_path / "x").exists()
    assert not listed.exists()
    assert ids(rows_of("iceberg", tmp_path)) == ids_of("a", "b", days=range(2))
    assert len(iceberg_table(tmp_path).metadata.snapshots) == 1


def test_files_of_other_writers_stay_as_they_are(tmp_path, source):
    story = TableStory(tmp_path, source, "delta")
    story.run(day(2))
    row = delta_table(tmp_path).to_pyarrow_table().slice(0, 1)
    strange = row.set_column(0, "id", pa.array([999], pa.int64()))
    for _ in range(2):
        write_deltalake(dataset(tmp_path), strange, mode="append")
    outcome = story.compact()
    assert "2 files of other writers" in " ".join(outcome.plan.notes)
    assert len(story.live()) == 3
    found = ids(rows_of("delta", tmp_path))
    assert found.total() == 16 + 2


def test_rows_that_are_marked_as_deleted_would_be_back(tmp_path, source):
    story = TableStory(tmp_path, source, "delta")
    story.run(day(2))
    DeltaTable(dataset(tmp_path)).alter.set_table_properties(
        {"delta.enableDeletionVectors": "true"}
    )
    DeltaTable(dataset(tmp_path)).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    with pytest.raises(StateError, match="marks rows as deleted"):
        story.compact()


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_left_the_table_by_an_act_come_back_after_a_vacuum(kind, tmp_path, source):
    """Undo brings back copies of its own, so a vacuum does not take them."""
    story = TableStory(tmp_path, source, kind)
    story.run(day(2))
    job = story.job()
    with story.store() as store:
        signature = next(iter(store.unit_states())).signature
        with open_session(
            job, store, "forget", now_ms=day(2), clock=lambda: story.clock
        ) as session:
            wanted = Selection(signatures=frozenset([signature]))
            apply(session, propose_forget(session, wanted, FileDecision.WITHDRAW))
    assert ids(rows_of(kind, tmp_path)).total() == 12
    destination = destination_for(job.publishing, filesystem_for(job.publishing.final_dir))
    destination.vacuum(hours=0, now_ms=real_clock(), is_look=False)
    assert story.on_disk() == story.live()
    with (
        story.store() as store,
        open_session(job, store, "undo", now_ms=day(2), clock=lambda: story.clock) as session,
    ):
        apply(session, propose_undo(session))
    assert ids(rows_of(kind, tmp_path)) == ids_of("a", "b", days=range(2))
