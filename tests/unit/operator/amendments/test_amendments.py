"""Acts of operators from Python: what a preview shows is what is done, and nothing before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dil.errors import ConfigError, LeaseHeldError, StateError
from dil.operator import amendments
from dil.operator.amendments import FileDecision, OperatorSession, Selection
from dil.publishing import manifest
from dil.state.blocks.verification import verify_chain
from tests.jobs import dataset
from tests.killed import KilledError, killed
from tests.servers.http_server import HttpServer
from tests.stories import ROWS_PER_DAY, Story, day, ids_of, work_unit


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


@contextmanager
def session_of(story: Story, verb: str, *, is_dry_run: bool = False) -> Iterator[OperatorSession]:
    with (
        story.store() as store,
        amendments.open_session(
            story.job(),
            store,
            verb,
            now_ms=day(3),
            clock=lambda: story.clock,
            is_dry_run=is_dry_run,
        ) as session,
    ):
        yield session


A_DAY = Selection(low=day(1), high=day(2))


def test_an_act_is_proposed_performed_and_undone_without_a_command_line(story: Story) -> None:
    story.run(day(3))
    states, rows = story.states(), story.rows()

    with session_of(story, "forget") as session:
        preview = amendments.propose_forget(session, A_DAY, FileDecision.WITHDRAW)
        assert preview.plan is not None
        due = [unit.signature for unit in preview.plan.work_units]
        block = amendments.apply(session, preview, "the source was wrong")

    assert due == [work_unit(1, "a"), work_unit(1, "b")]
    assert block is not None
    assert story.rows() == ids_of("a", "b", days=range(1)) + ids_of("a", "b", days=range(2, 3))
    with session_of(story, "undo") as session:
        preview = amendments.propose_undo(session)
        assert "takes back forget" in preview.proposal.notes[0]
        assert "the source was wrong" in preview.proposal.notes[0]
        amendments.apply(session, preview)
    assert (story.states(), story.rows()) == (states, rows)
    with story.store() as store:
        assert verify_chain(store).is_sound


def test_a_preview_changes_nothing(story: Story) -> None:
    story.run(day(3))
    before = (story.head(), story.states(), story.rows())

    with session_of(story, "forget") as session:
        preview = amendments.propose_forget(session, A_DAY, FileDecision.KEEP)
        assert preview.doubled_rows == 2 * ROWS_PER_DAY

    assert (story.head(), story.states(), story.rows()) == before


def test_an_act_that_would_double_rows_is_refused_until_that_is_decided(story: Story) -> None:
    story.run(day(3))
    before = story.states()

    with session_of(story, "forget") as session:
        preview = amendments.propose_forget(session, A_DAY)
        with pytest.raises(StateError, match="a second time"):
            amendments.apply(session, preview)

    assert story.states() == before


def test_no_work_unit_is_forgotten_whose_files_no_manifest_lists(story: Story) -> None:
    story.run(day(3))
    shutil.rmtree(dataset(story.folder) / "_dil")

    with session_of(story, "forget") as session, pytest.raises(StateError):
        amendments.propose_forget(session, A_DAY)

    with session_of(story, "forget") as session:
        amendments.apply(session, amendments.propose_forget(session, A_DAY, FileDecision.KEEP))


@pytest.mark.parametrize("kind", ["files", "delta"])
def test_files_that_another_job_is_publishing_forbid_no_act(
    story: Story, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    story.changes["ms__table__format"] = kind
    story.run(day(3), run_id="mine")
    other = Story(story.folder, story.source, job__name="other", ms__table__format=kind)
    with monkeypatch.context() as patched:
        patched.setattr(manifest, "advance", killed)
        with pytest.raises(KilledError):
            other.run(day(3), run_id="other")

    story.job()
    with session_of(story, "forget") as session:
        preview = amendments.propose_forget(session, A_DAY, FileDecision.WITHDRAW)
    assert preview.plan is not None
    due = [unit.signature for unit in preview.plan.work_units]
    assert due == [work_unit(1, "a"), work_unit(1, "b")]


def test_a_rewind_takes_back_only_files_of_later_blocks(story: Story) -> None:
    story.run(day(2))
    head = story.head()
    assert head is not None
    story.run(day(3))

    with session_of(story, "rewind") as session:
        preview = amendments.propose_rewind(
            session, int(str(head["sequenceNumber"])), FileDecision.WITHDRAW
        )
        amendments.apply(session, preview)

    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_session_holds_the_lease_and_gives_it_back(story: Story) -> None:
    story.run(day(1))
    with session_of(story, "forget") as session:
        assert session.act_id is not None
        assert session.act_id.startswith("forget-")
        with pytest.raises(LeaseHeldError, match="forget-"), session_of(story, "prune"):
            pass
    with session_of(story, "prune"):
        pass


def test_a_look_at_a_store_that_holds_nothing_creates_nothing(story: Story) -> None:
    with session_of(story, "prune", is_dry_run=True) as session:
        preview = amendments.propose_prune(session)
        assert preview.is_empty
        assert session.lease is None
        with pytest.raises(AssertionError):
            amendments.apply(session, preview)
    assert not (story.folder / "state").exists()


def test_a_job_that_keeps_no_state_has_no_session(story: Story) -> None:
    story.changes["state__store__enabled"] = "false"
    with pytest.raises(ConfigError, match="orders keeps no state"), session_of(story, "forget"):
        pass
