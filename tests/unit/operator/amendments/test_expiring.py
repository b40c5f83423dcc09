"""Published files that are too old leave the dataset for good, and nothing else changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dil.errors import ConfigError, DilError, StateError, WriteError
from dil.model.report import RunStatus
from dil.operator import amendments
from dil.operator.amendments import OperatorSession, Preview
from dil.operator.backfill.publication import RowDecision
from dil.publishing.publisher import Publisher
from dil.state.chain.recorded_files import live_parts
from tests.backfills import Backfills
from tests.jobs import dataset, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS
from tests.stories import ROWS_PER_DAY, Story, day, ids_of, work_unit

MONTH = '{"publish.dir": "P30D"}'


@pytest.fixture(params=["append", "window_replace"])
def story(tmp_path: Path, source: HttpServer, request: pytest.FixtureRequest) -> Story:
    return Story(tmp_path, source, ms__retention=MONTH, ms__publish__mode=request.param)


@contextmanager
def session_of(story: Story, verb: str) -> Iterator[OperatorSession]:
    with (
        story.store() as store,
        amendments.open_session(
            story.job(), store, verb, now_ms=story.clock, clock=lambda: story.clock
        ) as session,
    ):
        yield session


def proposed(story: Story) -> Preview:
    with session_of(story, "expire") as session:
        return amendments.propose_expiry(session)


def expire(story: Story) -> Preview:
    with session_of(story, "expire") as session:
        preview = amendments.propose_expiry(session)
        amendments.apply(session, preview)
    return preview


def two_runs(story: Story) -> None:
    """Publish two days, and the third one twenty days later."""
    story.run(day(2))
    story.clock += 20 * DAY_MS
    story.run(day(3))


def test_files_that_were_published_too_long_ago_are_deleted_and_the_state_stays_sound(
    story: Story,
) -> None:
    two_runs(story)
    states = story.states()
    story.clock += 15 * DAY_MS
    files = {path.name for path in visible_files(story.folder)}

    preview = expire(story)

    assert sum(file.rows for file in preview.files.affected) == 4 * ROWS_PER_DAY
    assert story.rows() == ids_of("a", "b", days=range(2, 3))
    assert story.states() == states, "the work units stay committed"
    assert story.head() is not None
    on_disk = {path.name for path in dataset(story.folder).rglob("*.parquet")}
    assert on_disk == {path.name for path in visible_files(story.folder)}
    assert on_disk < files, "no copy is kept"
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(2, 4)), "nothing is read again"


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_files_leave_a_table_as_well(tmp_path: Path, source: HttpServer, table: str) -> None:
    changes = {"ms__publish__mode": "append", "ms__table__format": table}
    story = Story(tmp_path, source, ms__retention=MONTH, **changes)
    two_runs(story)
    story.clock += 15 * DAY_MS

    expire(story)

    with session_of(story, "prune") as session:
        live = session.live_files()
        assert set(live_parts(session.store)) == {file.uri for file in live}
    assert {file.signature for file in live} == {work_unit(2, "a"), work_unit(2, "b")}
    assert story.run(day(4)).status is RunStatus.SUCCESS


def test_nothing_is_deleted_before_its_time_and_nothing_by_a_preview(story: Story) -> None:
    two_runs(story)
    rows = story.rows()
    story.clock += 10 * DAY_MS - 1
    assert proposed(story).is_empty
    story.clock += 1
    preview = proposed(story)
    assert (len(preview.files.affected), preview.is_undoable) == (4, False)
    assert story.rows() == rows
    assert preview.plan is not None
    assert work_unit(0, "a") not in {unit.signature for unit in preview.plan.work_units}


def test_what_was_read_again_is_young(tmp_path: Path, source: HttpServer) -> None:
    windows = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}
    story = Story(tmp_path, source, ms__retention=MONTH, **windows)
    two_runs(story)
    story.clock += 15 * DAY_MS

    expire(story)

    assert story.rows() == ids_of("a", "b", days=range(1, 3))


def test_an_expiry_is_not_undone_and_hides_the_act_before_it(story: Story) -> None:
    two_runs(story)
    story.clock += 15 * DAY_MS
    expire(story)
    with (
        session_of(story, "undo") as session,
        pytest.raises(StateError, match="deleted published files that were too old"),
    ):
        amendments.propose_undo(session)


def test_an_expiry_that_is_cut_off_is_finished_by_the_next_run(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_runs(story)
    story.clock += 15 * DAY_MS

    def broken(*_: object, **__: object) -> None:
        raise WriteError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "carry_out", broken)
        with pytest.raises(WriteError):
            expire(story)
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE
    assert story.rows() == ids_of("a", "b", days=range(2, 3))


def test_the_preview_of_a_table_says_that_its_earlier_versions_keep_the_files(
    tmp_path: Path, source: HttpServer
) -> None:
    changes = {"ms__publish__mode": "append", "ms__table__format": "delta"}
    story = Story(tmp_path, source, ms__retention=MONTH, **changes)
    two_runs(story)
    story.clock += 15 * DAY_MS
    assert "dil compact JOB.conf --vacuum-hours" in expire(story).files.fate
    assert len(list(dataset(tmp_path).rglob("*.parquet"))) == 6


def test_what_the_deletion_would_be_refused_for_is_refused_by_the_preview(story: Story) -> None:
    story.changes["ms__publish__mode"] = "append"
    story.run(day(2))
    shutil.copytree(story.folder / "state", story.folder / "older")
    story.clock += 20 * DAY_MS
    story.run(day(3))
    shutil.rmtree(story.folder / "state")
    (story.folder / "older").rename(story.folder / "state")
    story.clock += 15 * DAY_MS
    with pytest.raises(StateError, match="the state is an older copy"):
        proposed(story)


def test_a_clock_that_steps_back_makes_no_file_older(story: Story) -> None:
    story.run(day(2))
    story.clock -= 90 * DAY_MS
    story.run(day(3))
    story.clock += 91 * DAY_MS
    assert proposed(story).is_empty


def moved(story: Story) -> Path:
    """Move all that the job published to another folder; return where it was."""
    before, after = story.folder / "lake", story.folder / "moved" / "lake"
    after.parent.mkdir()
    before.rename(after)
    story.changes["data__publisher__final__dir"] = str(after)
    return before


def test_files_that_were_moved_are_left_and_the_preview_says_so(story: Story) -> None:
    two_runs(story)
    story.clock += 15 * DAY_MS
    before = moved(story)

    preview = proposed(story)

    assert preview.is_empty
    (warning,) = [each for each in preview.proposal.notes if each.startswith("WARNING")]
    assert warning.startswith(f"WARNING: 4 files old enough would stay: file://{before}")
    # What it advises works.
    (story.folder / "moved" / "lake").rename(before)
    del story.changes["data__publisher__final__dir"]
    expire(story)
    assert story.rows() == ids_of("a", "b", days=range(2, 3))


def test_a_table_that_was_moved_is_left_until_its_files_are_listed_anew(
    tmp_path: Path, source: HttpServer
) -> None:
    changes = {"ms__publish__mode": "append", "ms__table__format": "delta"}
    story = Story(tmp_path, source, ms__retention=MONTH, **changes)
    two_runs(story)
    story.clock += 15 * DAY_MS
    moved(story)

    preview = proposed(story)

    assert preview.is_empty
    (warning,) = [each for each in preview.proposal.notes if each.startswith("WARNING")]
    assert "4 files old enough are recorded in another place and would stay" in warning
    with session_of(story, "relist") as session:
        amendments.apply(session, amendments.propose_relist(session))
    assert proposed(story).proposal.notes[1:] == ()
    story.clock += 30 * DAY_MS
    assert len(expire(story).files.withdrawn) == 6


def test_a_job_that_gives_no_period_keeps_its_files(story: Story) -> None:
    del story.changes["ms__retention"]
    story.run(day(1))
    with pytest.raises(ConfigError, match=r"names no publish\.dir"):
        proposed(story)


@pytest.mark.parametrize("mode", ["replace", "merge"])
def test_where_old_files_hold_the_newest_rows_nothing_is_deleted(
    tmp_path: Path, source: HttpServer, mode: str
) -> None:
    changes = {"ms__publish__mode": mode, "extract__primary__key__fields": "unit,id"}
    story = Story(tmp_path, source, ms__retention=MONTH, **changes)
    story.run(day(1))
    story.clock += 40 * DAY_MS
    with pytest.raises(DilError, match=f"ms.publish.mode is {mode}"):
        proposed(story)
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_files_that_the_chain_does_not_know_are_never_deleted(story: Story) -> None:
    two_runs(story)
    for path in (story.folder / "state").iterdir():
        path.unlink()
    story.changes["state__store__enabled"] = "true"
    story.clock += 60 * DAY_MS
    assert proposed(story).is_empty


def test_a_backfill_that_was_kept_does_not_bring_back_what_expired_in_a_shared_file(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source, ms__retention=MONTH, ms__output__file__per__work__unit="false")
    story.run(day(2))
    story.clock += 20 * DAY_MS
    story.run(day(3))
    backfills = Backfills(story, 3)
    definition = backfills.take(range(1, 3), "a")
    story.clock += 15 * DAY_MS
    expire(story)

    assert backfills.propose(definition, RowDecision.REPLACE).stale == (work_unit(1, "a"),)
    backfills.publish(definition, RowDecision.REPLACE, is_partial=True)

    assert story.rows() == ids_of("a", "b", days=range(2, 3))
    assert story.head() is not None
