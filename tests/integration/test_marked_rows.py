"""Rows that another engine marks as deleted in a table's files do not come back.

The marks are real ones: deletion vectors of Delta, position deletes of Iceberg.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dil.errors import CommitUnknownError, StateError, WriteError
from dil.operator.amendments import (
    FileDecision,
    Selection,
    apply,
    open_session,
    propose_expiry,
    propose_forget,
    propose_undo,
)
from dil.operator.backfill.publication import RowDecision
from dil.operator.compaction import CompactionRequest, compact
from dil.publishing import delta_removal
from dil.publishing.destination import destination_for
from dil.state.work_units.signatures import encoded
from dil.storage import filesystem_for
from dil.storage.local import LocalFilesystem
from tests.backfills import Backfills
from tests.jobs import dataset
from tests.marked_rows import delete_by_value, left_of, mark_deleted
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.stories import STEP_MS, Story, day, ids_of, work_unit
from tests.table_readers import FORMATS

FIRST = work_unit(0, "a")
PURGES = {"delta": "REORG TABLE", "iceberg": "rewrite_data_files"}


@pytest.fixture
def source():
    with HttpServer(Dataset.generate(6 * 4, units=("a", "b"), step_ms=STEP_MS)) as server:
        yield server


class MarkedStory(Story):
    """A job that publishes to a table, of which another engine deletes rows."""

    def __init__(self, folder: Path, source: HttpServer, kind: str, mode: str, **changes: str):
        super().__init__(folder, source, ms__table__format=kind, ms__publish__mode=mode, **changes)
        self.kind = kind

    def live(self):
        publishing = self.job().publishing
        return destination_for(publishing, filesystem_for(publishing.final_dir)).live()

    def mark(self, signature: str = FIRST) -> None:
        """Delete the first and the third row of a file with rows of a work unit."""
        (file,) = [each for each in self.live() if signature in each.signatures]
        path = Path(LocalFilesystem().path_of(file.uri))
        mark_deleted(self.kind, dataset(self.folder), path, [0, 2])

    def table_rows(self) -> Counter[tuple[str, int]]:
        return left_of(self.kind, dataset(self.folder))

    def act(self, propose):
        with (
            self.store() as store,
            open_session(
                self.job(), store, "act", now_ms=day(6), clock=lambda: self.clock
            ) as session,
        ):
            return apply(session, propose(session))

    def forget(self, *signatures: str):
        wanted = Selection(signatures=frozenset(map(encoded, signatures)))
        return self.act(lambda session: propose_forget(session, wanted, FileDecision.WITHDRAW))


def without_marked(days: range) -> Counter[tuple[str, int]]:
    return ids_of("a", "b", days=days) - Counter([("a", 0), ("a", 2)])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_merge_is_refused_before_a_row_is_read(kind, tmp_path, source):
    story = MarkedStory(
        tmp_path, source, kind, "merge",
        extract__primary__key__fields="id,unit", ms__grace__period__days="3",
    )  # fmt: skip
    story.run(day(2))
    story.mark()
    asked = len(source.requests)

    with pytest.raises(StateError, match="marked rows of") as caught:
        story.run(day(3))

    assert PURGES[kind] in caught.value.fix
    assert len(source.requests) == asked
    assert story.table_rows() == without_marked(range(2))
    # What it advises works.
    report = story.run(day(3), story.job(ms__publish__mode="replace"))
    assert report.status.value == "success"
    assert story.table_rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_window_that_is_read_again_has_the_rows_of_the_source_once(kind, tmp_path, source):
    story = MarkedStory(tmp_path, source, kind, "window_replace", ms__grace__period__days="3")
    story.run(day(2))
    story.mark()

    report = story.run(day(3))

    if kind == "iceberg":
        assert report.status.value == "success"
        assert story.table_rows() == ids_of("a", "b", days=range(3))
        return
    # A log of Delta tells a file with marks from the same one without: it would stay beside.
    (failure,) = report.failures
    assert "marked rows of" in failure.error
    assert story.table_rows() == without_marked(range(2))
    assert story.run(day(3), story.job(ms__publish__mode="replace")).exit_code == 0
    assert story.table_rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("mode", ["append", "window_replace"])
@pytest.mark.parametrize("kind", FORMATS)
def test_files_with_such_rows_are_not_withdrawn_and_others_are(kind, mode, tmp_path, source):
    story = MarkedStory(tmp_path, source, kind, mode)
    story.run(day(2))
    story.mark()

    with pytest.raises(StateError, match="marked rows of"):
        story.forget(FIRST)
    assert story.table_rows() == without_marked(range(2))

    story.forget(work_unit(1, "b"))
    assert story.table_rows() == without_marked(range(2)) - ids_of("b", days=range(1, 2))
    story.act(propose_undo)
    assert story.table_rows() == without_marked(range(2))
    story.run(day(3))
    assert story.table_rows() == without_marked(range(3))
    story.head()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_shared_file_with_such_rows_stays_as_it_is(kind, tmp_path, source):
    shared = {"ms__output__file__per__work__unit": "false"}
    story = MarkedStory(tmp_path, source, kind, "append", **shared)
    story.run(day(2))
    story.run(day(4))
    story.mark()
    before = story.table_rows()
    assert before.total() == 4 * 8 - 2

    with pytest.raises(StateError, match="marked rows of"):
        story.forget(work_unit(1, "b"))
    with pytest.raises(StateError, match="marks rows as deleted"):
        compact(story.job(), CompactionRequest(clock=lambda: story.clock))
    assert story.table_rows() == before

    story.forget(work_unit(3, "b"))
    assert story.table_rows() == before - ids_of("b", days=range(3, 4))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_backfill_does_not_replace_files_with_such_rows(kind, tmp_path, source):
    story = MarkedStory(tmp_path, source, kind, "append")
    story.run(day(2))
    backfills = Backfills(story, 2)
    definition = backfills.take(range(1))
    story.mark()

    with pytest.raises(StateError, match="marked rows of"):
        backfills.publish(definition, RowDecision.REPLACE)
    assert story.table_rows() == without_marked(range(2))

    backfills.publish(definition, RowDecision.APPEND)
    assert story.table_rows() == without_marked(range(2)) + ids_of("a", "b", days=range(1))


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_were_marked_since_an_act_was_decided_stop_it(
    kind, tmp_path, source, monkeypatch
):
    shared = {"ms__output__file__per__work__unit": "false"}
    story = MarkedStory(tmp_path, source, kind, "append", **shared)
    story.run(day(2))

    def refused(*_):
        raise WriteError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr("dil.publishing.publisher.Publisher.carry_out", refused)
        with pytest.raises(WriteError):
            story.forget(work_unit(1, "b"))
    story.mark()

    with pytest.raises(CommitUnknownError, match="since this publish was"):
        story.run(day(3))
    assert story.table_rows() == without_marked(range(2))


class ExpiringStory(MarkedStory):
    """A job with files of two days that are old enough, rows of one marked, and a young day."""

    def __init__(self, folder: Path, source: HttpServer, kind: str, **changes: str):
        retention = {"ms__retention": '{"publish.dir": "P1D"}', **changes}
        super().__init__(folder, source, kind, "append", **retention)
        self.run(day(2))
        self.mark()
        self.clock += 2 * DAY_MS
        self.run(day(3))

    def expire(self, *, is_done: bool = True):
        with (
            self.store() as store,
            open_session(
                self.job(), store, "expire", now_ms=self.clock, clock=lambda: self.clock
            ) as session,
        ):
            preview = propose_expiry(session)
            if is_done and not preview.is_empty:
                apply(session, preview)
        return preview

    def log_of(self, version: int) -> list[dict]:
        log = dataset(self.folder) / "_delta_log" / f"{version:020}.json"
        return [json.loads(line) for line in log.read_text().splitlines()]

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(dataset(self.folder))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("partition", ["", "unit"])
def test_files_with_such_rows_expire_like_others(kind, partition, tmp_path, source):
    story = ExpiringStory(tmp_path, source, kind, ms__table__partition__fields=partition)

    preview = story.expire()

    assert len(preview.files.withdrawn) == 4
    assert story.table_rows() == ids_of("a", "b", days=range(2, 3))
    story.head()
    assert story.run(day(4)).exit_code == 0
    assert story.table_rows() == ids_of("a", "b", days=range(2, 4))
    assert story.expire().is_empty


def test_the_log_says_of_such_files_what_the_library_says(tmp_path, source):
    story = ExpiringStory(tmp_path / "ours", source, "delta", ms__table__partition__fields="unit")
    other = tmp_path / "theirs"
    shutil.copytree(dataset(story.folder), other)

    story.expire()
    ours = [each["remove"] for each in story.log_of(story.table.version()) if "remove" in each]
    DeltaTable(other).delete()
    log = other / "_delta_log" / f"{DeltaTable(other).version():020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    theirs = {each["remove"]["path"]: each["remove"] for each in actions if "remove" in each}

    assert sum("deletionVector" in each for each in ours) == 1
    for remove in ours:
        expected = theirs[remove["path"]] | {"deletionTimestamp": remove["deletionTimestamp"]}
        assert remove == expected


def test_such_files_are_found_behind_a_checkpoint(tmp_path, source):
    story = ExpiringStory(tmp_path, source, "delta", ms__table__partition__fields="unit")
    story.table.create_checkpoint()
    version = story.table.version()
    for number in range(version):
        (dataset(tmp_path) / "_delta_log" / f"{number:020}.json").unlink()

    story.expire()

    assert story.table_rows() == ids_of("a", "b", days=range(2, 3))


def test_another_writer_may_come_first(tmp_path, source, monkeypatch):
    story = ExpiringStory(tmp_path, source, "delta")
    put, tried = LocalFilesystem.put_if_absent, []

    def put_late(self, path, data):
        if "_delta_log" in path and not tried:
            tried.append(path)
            story.table.alter.set_table_properties(
                {"delta.logRetentionDuration": "interval 9 days"}
            )
        return put(self, path, data)

    monkeypatch.setattr(LocalFilesystem, "put_if_absent", put_late)
    story.expire()

    assert tried
    assert story.table_rows() == ids_of("a", "b", days=range(2, 3))
    assert story.table.metadata().configuration["delta.logRetentionDuration"] == "interval 9 days"


def test_a_file_that_cannot_be_taken_out_stays_alone_and_the_preview_says_so(
    tmp_path, source, monkeypatch
):
    story = ExpiringStory(tmp_path, source, "delta")
    monkeypatch.setattr(delta_removal, "_KNOWN", frozenset())

    preview = story.expire()

    assert len(preview.files.withdrawn) == 3
    assert any(
        "1 file with 4 rows old enough would stay" in each for each in preview.proposal.notes
    )
    left = ids_of("a", days=range(1)) - Counter([("a", 0), ("a", 2)])
    assert story.table_rows() == left + ids_of("a", "b", days=range(2, 3))
    assert story.run(day(4)).exit_code == 0


def test_a_table_that_may_only_grow_is_refused_by_the_preview(tmp_path, source):
    story = ExpiringStory(tmp_path, source, "delta")
    story.table.alter.set_table_properties({"delta.appendOnly": "true"})

    with pytest.raises(StateError, match=r"delta\.appendOnly=true"):
        story.expire(is_done=False)
    assert story.run(day(4)).exit_code == 0, "no publish waits to be finished"


def test_deletes_by_value_may_be_of_any_file(tmp_path, source):
    """The library does not read them, so that no file is known to have none."""
    story = MarkedStory(tmp_path, source, "iceberg", "append")
    story.run(day(2))
    files = story.live()
    delete_by_value(dataset(tmp_path), "a")

    with pytest.raises(StateError, match="marked rows of"):
        story.forget(work_unit(1, "b"))
    assert story.live() == files
    story.run(day(3))
    assert len(story.live()) == 6

    merge = {"ms__publish__mode": "merge", "extract__primary__key__fields": "id,unit"}
    with pytest.raises(StateError, match="marked rows of"):
        story.run(day(4), story.job(**merge))
