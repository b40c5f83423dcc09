"""What operators can still do after ``dil compact``, and what would lose or double rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, StateError, WriteError
from dil.operator.amendments import (
    FileDecision,
    Selection,
    apply,
    open_session,
    propose_forget,
    propose_rewind,
    propose_undo,
)
from dil.operator.compaction import CompactionRequest
from dil.operator.compaction import compact as compact_files
from dil.operator.run_history import finish_publish, recorded_publish
from dil.run.lease import leased
from dil.state.work_units.signatures import encoded
from tests.jobs import dataset, properties, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, ids_of, work_unit


@pytest.fixture
def story(tmp_path):
    with HttpServer(Dataset.generate(24, units=("a", "b"), step_ms=STEP_MS)) as source:
        yield Story(tmp_path, source)


def compact(story):
    return compact_files(story.job(), CompactionRequest(clock=lambda: story.clock))


def acting(story, propose):
    """Do what ``propose`` makes of a session."""
    job = story.job()
    with (
        story.store() as store,
        open_session(job, store, "act", now_ms=day(5), clock=lambda: story.clock) as session,
    ):
        return apply(session, propose(session))


def forgetting(number, decision):
    wanted = Selection(signatures=frozenset([encoded(work_unit(number, "a"))]))
    return lambda session: propose_forget(session, wanted, decision)


def test_rows_among_others_are_not_read_again_unless_that_is_fine(story):
    story.run(day(2))
    compact(story)
    story.drop_units()
    story.run(day(3))
    for decision in (FileDecision.UNDECIDED, FileDecision.WITHDRAW):
        with pytest.raises(StateError, match="into one file"):
            acting(story, forgetting(0, decision))
    with pytest.raises(StateError, match="into one file"):
        acting(story, lambda session: propose_rewind(session, 0, FileDecision.WITHDRAW))
    # A work unit that came after it has files of its own.
    acting(story, forgetting(2, FileDecision.WITHDRAW))
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))
    acting(story, forgetting(0, FileDecision.KEEP))


def test_rows_among_others_are_withdrawn_and_read_again(story):
    story.run(day(2))
    compact(story)
    story.run(day(3))
    acting(story, forgetting(0, FileDecision.WITHDRAW))
    assert story.rows() == ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1))
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_rewind_over_a_compaction_is_refused_unless_doubled_rows_are_fine(story):
    story.run(day(2))
    compact(story)
    compacted = int(story.head()["sequenceNumber"])
    story.run(day(3))
    with pytest.raises(StateError, match="which rows are older than") as caught:
        acting(story, lambda session: propose_rewind(session, 0))
    assert f"Rewind to block {compacted} or later" in caught.value.fix
    # Of the work units that came after it nothing was put together.
    for sequence in (compacted, compacted - 2):
        acting(
            story, lambda session, to=sequence: propose_rewind(session, to, FileDecision.WITHDRAW)
        )
        assert story.rows() == ids_of("a", "b", days=range(2))
        story.run(day(3))
        assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_compaction_is_nothing_to_be_undone(story):
    story.run(day(2))
    compact(story)
    with pytest.raises(StateError, match="files before it are gone"):
        acting(story, propose_undo)
    assert story.rows() == ids_of("a", "b", days=range(2))


@pytest.mark.parametrize("mode", ["append", "window_replace"])
def test_a_compaction_that_lost_a_staged_file_is_given_up_as_a_whole(story, mode, monkeypatch):
    story.changes["ms__publish__mode"] = mode
    story.run(day(2))
    if mode == "window_replace":
        # Two files of one work unit.
        story.changes["ms__parameters"] = properties(story.folder, "")["ms.parameters"].replace(
            "100", "1"
        )
        job = story.job()
        cut = replace(job, writing=replace(job.writing, row_group_rows=1, target_bytes=100))
        story.run(day(4), cut)
    before = {path: path.read_bytes() for path in visible_files(story.folder)}
    job = story.job()

    def refused(*_):
        raise WriteError("the disk is gone")

    monkeypatch.setattr("dil.publishing.publisher.Publisher.carry_out", refused)
    with pytest.raises(WriteError):
        compact(story)
    monkeypatch.undo()
    with story.store() as store:
        intent = store.pending_intent()
        assert intent is not None
        Path(intent.commit.moves[0].source).unlink()
        found = recorded_publish(job, store)
        assert found is not None
        with leased(job, store, "finish", lambda: story.clock) as lease:
            finish_publish(job, store, lease, found)
    assert {path: path.read_bytes() for path in visible_files(story.folder)} == before
    assert story.run(day(5)).exit_code == 0


def test_another_mode_is_refused_where_rows_are_mixed(story):
    story.run(day(2))
    compact(story)
    story.drop_units()
    with pytest.raises(ConfigError, match="several work units"):
        story.run(day(3), story.job(ms__publish__mode="window_replace"))


def test_readers_that_follow_a_delta_table_see_no_new_rows(story):
    story.changes |= {"ms__table__format": "delta", "ms__publish__mode": "append"}
    story.run(day(2))
    compact(story)
    newest = max((dataset(story.folder) / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    changed = [
        each["dataChange"]
        for one in actions
        for name, each in one.items()
        if name in {"add", "remove"}
    ]
    assert changed == [False] * 5


def test_dil_compact_is_a_command(story, capsys):
    story.run(day(2))
    assert main(["compact", str(story.folder / "orders.conf"), "--dry-run"]) == 0
    assert "4 small files" in capsys.readouterr().out
    assert main(["compact", str(story.folder / "orders.conf"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 4
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_run_registers_by_itself(story, monkeypatch):
    """Its catalog does not answer here; that of test_catalog_glue.py does."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    story.changes |= {
        "ms__catalog__type": "glue",
        "ms__catalog__glue__region": "eu-central-1",
        "ms__catalog__glue__endpoint": "http://127.0.0.1:1",
    }
    report = story.run(day(2))
    assert (report.exit_code, report.failures[-1].code) == (1, "DIL-WRITE")
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert story.run(day(2)).exit_code == 1
    del story.changes["ms__catalog__type"]
    assert story.run(day(2)).exit_code == 0
