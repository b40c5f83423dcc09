"""No act loses a row: a work unit is committed with its files, or is read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dil.errors import StateError
from dil.execution.executor import Execution
from dil.model.report import RunStatus
from dil.model.task import Failure, TaskReport
from dil.operator import amendments
from dil.operator.amendments import FileDecision, OperatorSession, Preview, Selection
from dil.publishing.manifest import live_files
from dil.state.amendments import recording
from dil.state.blocks.verification import verify_chain
from dil.storage import LocalFilesystem
from tests.jobs import dataset
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day, ids_of, work_unit

WINDOWS = {"ms__publish__mode": "window_replace"}
UP_TO_NOW = {
    "ms__work__unit__partial__partition": "true",
    "ms__watermark": json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}},
            {"name": "unit", "type": "unit", "units": "a,b"},
        ]
    ),
}
ONE = Selection(signatures=frozenset({work_unit(1, "a")}))
KEEP, WITHDRAW = FileDecision.KEEP, FileDecision.WITHDRAW


@pytest.fixture(scope="module")
def source() -> Iterator[HttpServer]:
    rows = Dataset.generate(6 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


class Failing:
    """Executes nothing: every work unit fails."""

    def execute(self, _run: object, units: list, _watch: object) -> Execution:
        failure = Failure("DIL-SOURCE", "gone")
        return Execution(
            tuple(TaskReport(u.signature, u.low, u.high, 1, failure=failure) for u in units)
        )


@contextmanager
def session_of(story: Story, verb: str, now: int = 3) -> Iterator[OperatorSession]:
    with (
        story.store() as store,
        amendments.open_session(
            story.job(), store, verb, now_ms=day(now), clock=lambda: story.clock
        ) as session,
    ):
        yield session


def forget(story: Story, selection: Selection = ONE, decision: FileDecision = WITHDRAW) -> Preview:
    with session_of(story, "forget") as session:
        preview = amendments.propose_forget(session, selection, decision)
        amendments.apply(session, preview)
    return preview


def rewind(story: Story, sequence: int, decision: FileDecision = FileDecision.UNDECIDED) -> Preview:
    with session_of(story, "rewind") as session:
        preview = amendments.propose_rewind(session, sequence, decision)
        amendments.apply(session, preview)
    return preview


def undo(story: Story) -> Preview:
    with session_of(story, "undo") as session:
        preview = amendments.propose_undo(session)
        amendments.apply(session, preview)
    return preview


def head_of(story: Story) -> int:
    head = story.head()
    return -1 if head is None else int(str(head["sequenceNumber"]))


def copies_of(story: Story) -> list[Path]:
    return sorted((dataset(story.folder) / "_dil" / "withdrawn").rglob("*.parquet"))


# Rewind gives back files that left


def test_a_rewind_over_a_withdrawal_brings_the_files_back(story: Story) -> None:
    story.run(day(3))
    at, states = head_of(story), story.states()
    forget(story)

    preview = rewind(story, at)

    assert [move.target.signature for move in preview.files.moves] == [work_unit(1, "a")]
    assert (story.states(), story.rows()) == (states, ids_of("a", "b", days=range(3)))
    assert copies_of(story) == []
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE
    undo(story)
    assert story.rows() == ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1, 2))
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_the_rewind_that_undo_advises_after_a_failed_run_brings_the_files_back(
    story: Story,
) -> None:
    story.changes["job__commit__policy"] = "successful"
    story.run(day(3))
    at = head_of(story)
    forget(story)
    story.run(day(3), executor=Failing())
    with pytest.raises(StateError, match="cannot be undone"):
        undo(story)

    rewind(story, at)

    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_rows_whose_copies_are_gone_are_read_again(story: Story) -> None:
    story.run(day(3))
    at = head_of(story)
    forget(story, Selection(low=day(1), high=day(2)))
    copies_of(story)[0].unlink()
    with pytest.raises(StateError, match="are not at"):
        undo(story)

    preview = rewind(story, at)

    assert "PENDING, to be read again: 1 work unit whose" in " ".join(preview.proposal.notes)
    assert preview.proposal.watermark == day(1)
    assert len(preview.files.moves) == 1
    assert story.run(day(3)).units.planned == 1
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_other_copies_of_an_act_stay_when_only_some_come_back(story: Story) -> None:
    story.run(day(2))
    at = head_of(story)
    story.run(day(3))
    forget(story, Selection())

    rewind(story, at)

    assert story.rows() == ids_of("a", "b", days=range(2))
    assert len(copies_of(story)) == 2
    undo(story)
    assert not story.rows()
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_rewind_that_withdraws_where_runs_replace_lets_the_rows_be_read_again(
    story: Story,
) -> None:
    story.changes.update(WINDOWS)
    story.run(day(3))
    at = head_of(story)
    story.run(day(3), story.job(**one_day_again()))
    story.job()

    preview = rewind(story, at, WITHDRAW)

    assert len(preview.files.withdrawn) == 2
    assert story.rows() == ids_of("a", "b", days=range(1, 3))
    assert story.states()[work_unit(0, "a")].status == "PENDING"
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_rewind_keeps_what_replaced_the_files_of_its_block(story: Story) -> None:
    story.changes.update(WINDOWS)
    story.run(day(3))
    at, states = head_of(story), story.states()
    story.run(day(3), story.job(**one_day_again()))
    story.job()

    rewind(story, at)

    assert story.states() == states
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE


def test_a_rewind_lets_rows_be_read_again_that_a_shorter_reading_replaced(story: Story) -> None:
    story.changes.update(WINDOWS, **UP_TO_NOW)
    story.run(day(2))
    at = head_of(story)
    forget(story)
    story.run(day(1) + DAY_MS // 2)
    assert story.rows() != ids_of("a", "b", days=range(2))

    rewind(story, at)

    assert story.states()[work_unit(1, "a")].status == "PENDING"
    story.run(day(2))
    assert story.rows() == ids_of("a", "b", days=range(2))


def one_day_again() -> dict[str, str]:
    """Return what makes a run read the first day once more."""
    watermark = [
        {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "2020-01-02"}},
        {"name": "unit", "type": "unit", "units": "a,b"},
    ]
    return {"ms__backfill": "true", "ms__watermark": json.dumps(watermark)}


def test_a_block_in_the_middle_of_an_act_is_no_place_to_rewind_to(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(3))
    at = head_of(story)
    monkeypatch.setattr(recording, "ROWS_PER_BLOCK", 2)
    forget(story, Selection())

    with pytest.raises(StateError, match=f"takes the blocks {at + 1} to {at + 4}"):
        rewind(story, at + 2)
    rewind(story, at + 1)

    assert story.rows() == ids_of("a", "b", days=range(3))


# Files of other jobs


def test_files_of_another_job_with_the_same_signatures_are_left_alone(
    tmp_path: Path, source: HttpServer
) -> None:
    lake = str(tmp_path / "lake")
    north, south = (
        Story(tmp_path / name, source, data__publisher__final__dir=lake, job__name=name)
        for name in ("north", "south")
    )
    north.run(day(2), run_id="run-n1")
    south.run(day(2), run_id="run-s1")

    with session_of(north, "forget") as session:
        kept = amendments.propose_forget(session, ONE, KEEP)
        preview = amendments.propose_forget(session, ONE, WITHDRAW)
        amendments.apply(session, preview)
    north.run(day(2), run_id="run-n2")

    assert kept.doubled_rows == ROWS_PER_DAY
    assert [file.run_id for file in preview.files.withdrawn] == ["run-n1"]
    assert "left as they are: 1 file with 4 rows of" in " ".join(preview.proposal.notes)
    live = live_files(LocalFilesystem(), f"{lake}/shop/orders")
    again = [file.run_id for file in live if file.signature == work_unit(1, "a")]
    assert sorted(again) == ["run-n2", "run-s1"]


# The law

_ACTS = st.one_of(
    st.tuples(st.just("run"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("forget"), st.integers(0, 3), st.sampled_from(("a", "b", None))),
    st.tuples(st.just("rewind"), st.integers(0, 30), st.booleans()),
    st.tuples(st.just("undo"), st.none(), st.none()),
    st.tuples(st.just("lose"), st.none(), st.none()),
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    changes=st.sampled_from(({}, WINDOWS, UP_TO_NOW)),
    decision=st.sampled_from((WITHDRAW, WITHDRAW, KEEP)),
    steps=st.lists(_ACTS, max_size=8),
)
def test_after_any_mixture_of_runs_and_acts_the_next_run_makes_every_row_be_there_once(
    tmp_path_factory: pytest.TempPathFactory,
    source: HttpServer,
    changes: dict[str, str],
    decision: FileDecision,
    steps: list[tuple[str, int, object]],
) -> None:
    story = Story(tmp_path_factory.mktemp("law"), source, **changes)
    story.run(day(3))
    for kind, number, detail in steps:
        step(story, kind, number, detail, decision)
        with story.store() as store:
            assert verify_chain(store).problems == ()
    story.job()
    story.run(day(5))
    rows, every = story.rows(), ids_of("a", "b", days=range(5))
    assert not every - rows
    if decision is WITHDRAW:
        assert rows == every
    assert {state.status for state in story.states().values()} == {"COMMITTED"}


def step(story: Story, kind: str, number: int, detail: object, decision: FileDecision) -> None:
    """Do one thing; an act that is refused changes nothing."""
    if kind == "run":
        changes = one_day_again() if detail and story.changes == WINDOWS else {}
        half = DAY_MS // 2 if detail and story.changes == UP_TO_NOW else 0
        story.run(day(max(number, 3)) + half, story.job(**changes))
        story.job()
    elif kind == "lose":
        for copy in copies_of(story)[:1]:
            copy.unlink()
    else:
        with suppress(StateError):
            act(story, kind, number, detail, decision)


def act(story: Story, kind: str, number: int, detail: object, decision: FileDecision) -> None:
    if kind == "forget":
        units = frozenset() if detail is None else frozenset({f'{{"unit":"{detail}"}}'})
        forget(story, Selection(units=units, low=day(number), high=day(number + 2)), decision)
    elif kind == "rewind":
        is_decided = detail or story.changes != WINDOWS
        at = number % (head_of(story) + 1)
        rewind(story, at, decision if is_decided else FileDecision.UNDECIDED)
    else:
        undo(story)
