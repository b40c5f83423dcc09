"""A range read again beside its dataset, and published as one act that can be taken back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, LeaseHeldError, StateError
from dil.model.report import RunStatus
from dil.operator import run_history
from dil.operator.backfill.definition import backfill_job
from dil.operator.backfill.publication import RowDecision
from dil.operator.backfill.status import Phase
from dil.operator.compaction import CompactionRequest, compact
from dil.publishing import set_aside
from dil.publishing.files import FileDestination
from dil.publishing.publisher import Publisher
from dil.run import plan_builder
from dil.run.lease import leased
from dil.state import open_store
from dil.state.blocks.source_state import COMMITTED, FAILED
from tests.backfills import Backfills, correct, late_row, notes_of, source_notes, take_away
from tests.jobs import dataset, visible_files
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, failing, ids_of, snapshot, work_unit

MERGED = {
    "ms__publish__mode": "merge",
    "extract__table__type": "SNAPSHOT_APPEND",
    "extract__primary__key__fields": "id,unit",
    "extract__delta__fields": "updated_ms",
}


# Reading


def test_reading_touches_neither_the_dataset_nor_the_state_of_the_job(
    story: Story, backfills: Backfills
) -> None:
    story.run(day(4))
    before, states, head = snapshot(story.folder / "lake" / "shop"), story.states(), story.head()

    definition = backfills.take(range(1, 3))

    assert backfills.held(definition) == ids_of("a", "b", days=range(1, 3))
    assert snapshot(story.folder / "lake" / "shop") == before
    assert (story.states(), story.head()) == (states, head)
    assert visible_files(story.folder) != []
    assert backfills.status(definition).phase is Phase.COMPLETE


def test_it_reads_the_units_that_are_asked_for(story: Story, backfills: Backfills) -> None:
    story.run(day(4))

    definition = backfills.take(range(1, 3), "b")

    assert backfills.held(definition) == ids_of("b", days=range(1, 3))


def test_a_failed_work_unit_is_read_by_the_next_reading_alone(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.run(day(4))
    definition = backfills.begin(range(1, 3))
    source.faults.append(failing(2, "b"))

    first = backfills.read(definition)
    status = backfills.status(definition)
    source.faults.clear()
    second = backfills.read(definition)

    assert (first.status, first.exit_code) == (RunStatus.PARTIAL, 4)
    assert (status.phase, status.failed) == (Phase.UNFINISHED, {work_unit(2, "b")})
    assert (second.status, second.units.planned) == (RunStatus.SUCCESS, 1)
    assert backfills.read(definition).status is RunStatus.NOTHING_DUE
    assert backfills.held(definition) == ids_of("a", "b", days=range(1, 3))


def test_it_is_read_while_a_run_of_the_job_holds_the_lease(
    story: Story, backfills: Backfills
) -> None:
    story.run(day(4))
    with (
        story.store() as store,
        leased(story.job(), store, "run", backfills.clock),
    ):
        definition = backfills.take(range(1, 3))

        with pytest.raises(LeaseHeldError):
            backfills.publish(definition)

    assert backfills.status(definition).phase is Phase.COMPLETE


def test_what_the_job_reads_meanwhile_is_its_own(story: Story, backfills: Backfills) -> None:
    story.run(day(3))
    definition = backfills.take(range(1, 3))

    assert story.run(day(4)).units.planned == 2
    states = story.states()
    backfills.publish(definition)

    assert story.states() == states
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_reading_can_be_slowed_down(story: Story, backfills: Backfills) -> None:
    story.run(day(4))
    definition = backfills.begin(range(1, 3))
    slow = backfill_job(story.job(), definition.id, parallelism=3, pause_s=5)

    with open_store(slow.state, slow.name, clock=backfills.clock) as store:
        left = plan_builder.accept_plan(slow, store, day(4), definition.plan).work_units

    assert slow.running.threads == 3
    assert [unit.not_before - day(4) for unit in left] == [0, 5_000, 10_000, 15_000]


def test_another_configuration_cannot_go_on_with_it(story: Story, backfills: Backfills) -> None:
    story.run(day(4))
    definition = backfills.begin(range(1, 3))
    story.changes["ms__data__field"] = "other"

    with pytest.raises(ConfigError, match="another configuration"):
        backfills.read(definition)


# Publishing


def test_the_rows_take_the_place_of_those_of_the_same_work_units(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.run(day(4))
    states, watermark = story.states(), story.head()["event"]["newWatermark"]  # type: ignore[index]
    correct(source, "a", 5)
    late_row(source, "b", 2, 900)
    take_away(source, "a", 9)
    outside = ids_of("a", "b", days=range(1)) + ids_of("a", "b", days=range(3, 4))
    definition = backfills.take(range(1, 3))

    found = backfills.publish(definition)

    assert notes_of(story) == source_notes(source, range(4))
    assert story.rows() & outside == outside
    assert (story.states(), found.changed) == (states, ())
    assert story.head()["event"]["newWatermark"] == watermark  # type: ignore[index]
    assert story.run(day(4)).status is RunStatus.NOTHING_DUE
    assert backfills.status(definition).phase is Phase.PUBLISHED


def test_undo_brings_back_exactly_what_was_there(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.run(day(4))
    before, states = notes_of(story), story.states()
    files = [path.name for path in visible_files(story.folder)]
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))
    backfills.publish(definition)

    backfills.undo(definition)

    assert (notes_of(story), story.states()) == (before, states)
    assert [path.name for path in visible_files(story.folder)] == files
    assert backfills.status(definition).phase is Phase.UNDONE
    backfills.undo(definition)
    assert notes_of(story) == source_notes(source, range(4))
    assert backfills.status(definition).phase is Phase.PUBLISHED
    assert story.head()


def test_a_replacing_job_keeps_the_rows_outside_of_the_range(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__publish__mode"] = "replace"
    story.run(day(4))
    correct(source, "a", 5)

    backfills.publish(backfills.take(range(1, 3)))

    assert notes_of(story) == source_notes(source, range(4))


def test_an_appending_job_is_asked_how(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__publish__mode"] = "append"
    story.run(day(4))
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))

    assert backfills.propose(definition).needs == ("--append", "--replace")
    with pytest.raises(StateError, match="append"):
        backfills.publish(definition)
    backfills.publish(definition, RowDecision.REPLACE)

    assert notes_of(story) == source_notes(source, range(4))


def test_an_appending_job_may_get_another_version(story: Story, backfills: Backfills) -> None:
    story.changes["ms__publish__mode"] = "append"
    story.run(day(4))
    definition = backfills.take(range(1, 3))

    backfills.publish(definition, RowDecision.APPEND)
    both = story.rows()
    backfills.undo(definition)

    assert both == ids_of("a", "b", days=range(4)) + ids_of("a", "b", days=range(1, 3))
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_a_job_that_shares_its_dataset_takes_only_its_own_files_away(
    story: Story, backfills: Backfills
) -> None:
    story.changes["ms__publish__mode"] = "append"
    story.run(day(4), story.job(job__name="others"))
    story.run(day(4), story.job())

    backfills.publish(backfills.take(range(1, 3)), RowDecision.REPLACE)

    once = ids_of("a", "b", days=range(4))
    assert story.rows() == once + once


def test_merged_rows_take_the_place_of_their_keys_alone(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes.update(MERGED)
    story.run(day(4))
    before = notes_of(story)
    correct(source, "a", 5)
    late_row(source, "b", 2, 900)
    definition = backfills.take(range(1, 3))

    compared = backfills.compare(definition).total
    backfills.publish(definition)

    assert compared is not None
    assert (compared.added, compared.removed, compared.changed) == (1, 0, 1)
    assert notes_of(story) == source_notes(source, range(4))
    backfills.undo(definition)
    assert notes_of(story) == before


def test_rows_of_one_key_are_merged_in_the_order_in_which_they_were_read(
    story: Story, backfills: Backfills
) -> None:
    story.changes.update(
        MERGED,
        extract__primary__key__fields="unit",
        extract__delta__fields="",
        ms__work__unit__partition="none",
        ms__writer__target__bytes="1",
        ms__writer__row__group__rows="1",
        ms__parameters=json.dumps(
            [
                {"name": "unit"},
                {"name": "since", "type": "watermark", "value": "low"},
                {"name": "until", "type": "watermark", "value": "high"},
                {"name": "cursor", "type": "session"},
                {"name": "limit", "type": "primitive", "value": 1},
            ]
        ),
    )
    story.run(day(4))
    last = story.rows()
    definition = backfills.take(range(4))

    backfills.publish(definition)

    assert len(backfills.status(definition).files) > 2 * 10
    assert story.rows() == last == Counter({("a", 15): 1, ("b", 15): 1})


def test_a_merge_is_not_taken_back_once_runs_merged_more(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes.update(MERGED)
    story.run(day(4))
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))
    backfills.publish(definition)
    story.run(day(5))

    with pytest.raises(StateError, match="runs have merged rows"):
        backfills.undo(definition)

    assert notes_of(story) == source_notes(source, range(5))


def test_a_new_column_joins_the_recorded_schema(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__output__schema"] = ""
    story.run(day(4))
    for number in range(4, 8):
        correct(source, "a", number, discount=number)
    definition = backfills.take(range(1, 2), "a")

    backfills.publish(definition)

    with story.store() as store:
        newest = next(iter(store.blocks_of_kind("SetDataSchema")))
    assert "discount: int32" in str(newest["event"]["schema"])  # type: ignore[index]
    assert story.run(day(5)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(5))


def test_the_schema_contract_of_the_dataset_holds_for_a_backfill(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes.update(ms__output__schema="", ms__schema__contract="freeze")
    story.run(day(4))
    correct(source, "a", 5, discount=1)
    definition = backfills.begin(range(1, 3))

    report = backfills.read(definition)

    assert report.status is RunStatus.PARTIAL
    assert [failure.signature for failure in report.failures] == [work_unit(1, "a")]
    assert "discount" in report.failures[0].error


def test_rows_that_were_put_aside_come_along(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes.update(ms__output__schema="", ms__schema__contract="discard_row")
    story.run(day(4))
    correct(source, "a", 5, amount="much")
    definition = backfills.take(range(1, 3))
    aside = dataset(story.folder) / "_quarantine"

    assert not list(aside.rglob("*.json"))
    backfills.publish(definition)
    backfills.drop(definition)

    (file,) = aside.rglob("*.json")
    assert "much" in file.read_text()
    assert story.rows() == ids_of("a", "b", days=range(4)) - Counter({("a", 5): 1})


def test_undo_takes_the_rows_away_that_were_put_aside_and_they_come_back_with_it(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes.update(ms__output__schema="", ms__schema__contract="discard_row")
    story.run(day(3))
    correct(source, "a", 13, amount="many")
    story.run(day(4))
    correct(source, "a", 5, amount="much")
    definition = backfills.take(range(1, 3))
    aside = dataset(story.folder) / "_quarantine"
    (ours,) = aside.rglob("*.json")
    kept = dataset(story.folder) / "_dil" / "aside"

    def texts() -> list[str]:
        return ["much" if "much" in file.read_text() else "many" for file in aside.rglob("*.json")]

    backfills.publish(definition)
    assert sorted(texts()) == ["many", "much"]
    backfills.undo(definition)
    assert list(aside.rglob("*.json")) == [ours]
    assert len(list(kept.rglob("*.json"))) == 1

    for expected in (["many", "much"], ["many"], ["many", "much"]):
        backfills.undo(definition)
        assert sorted(texts()) == expected
    assert not kept.exists()


@pytest.mark.parametrize("is_early", [False, True], ids=["now", "by an earlier release"])
def test_an_undo_that_is_given_up_leaves_the_rows_that_were_put_aside(
    story: Story,
    source: HttpServer,
    backfills: Backfills,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_early: bool,
) -> None:
    """Earlier releases took the rows away before they published."""
    story.changes.update(ms__output__schema="", ms__schema__contract="discard_row")
    story.run(day(4))
    correct(source, "a", 5, amount="much")
    definition = backfills.take(range(1, 3))
    backfills.publish(definition)
    published = story.rows()
    aside = dataset(story.folder) / "_quarantine"
    (ours,) = aside.rglob("*.json")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileDestination, "carry_out", die)
        if is_early:
            patch.setattr(set_aside, "is_taken", lambda *_: False)
        with pytest.raises(KeyboardInterrupt):
            backfills.undo(definition)
    assert ours.exists() is not is_early
    assert main(["runs", "abandon", str(story.folder / "orders.conf"), "--yes"]) == 0

    assert list(aside.rglob("*.json")) == [ours]
    assert story.rows() == published
    backfills.undo(definition)
    assert not list(aside.rglob("*.json"))
    assert story.rows() == ids_of("a", "b", days=range(4))


@pytest.mark.parametrize("is_read", [False, True], ids=["to read", "to publish"])
def test_a_destination_that_does_not_fit_is_told_first(
    story: Story, source: HttpServer, backfills: Backfills, *, is_read: bool
) -> None:
    """A table's log in the dataset's folder would not know of the rows."""
    story.run(day(4))
    definition = backfills.take(range(1, 3)) if is_read else backfills.begin(range(1, 3))
    (dataset(story.folder) / "_delta_log").mkdir()
    asked = len(source.requests)

    with pytest.raises(ConfigError) as caught:
        (backfills.publish if is_read else backfills.read)(definition)

    assert [problem.key for problem in caught.value.problems] == ["ms.table.format"]
    assert len(source.requests) == asked
    (dataset(story.folder) / "_delta_log").rmdir()
    assert story.rows() == ids_of("a", "b", days=range(4))


# What the job did not read, or failed to


def test_what_no_run_has_read_is_left_to_the_next_run(story: Story, backfills: Backfills) -> None:
    story.run(day(2))
    definition = backfills.begin(range(1, 4))

    assert {unit.signature for unit in definition.plan.work_units} == {
        work_unit(1, "a"),
        work_unit(1, "b"),
    }
    assert definition.plan.skipped == 4


def test_what_failed_and_is_there_now_counts_as_read(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["job__commit__policy"] = "successful"
    source.faults.append(failing(1, "b"))
    story.run(day(4))
    failed = story.states()
    source.faults.clear()
    definition = backfills.take(range(1, 3))

    found = backfills.publish(definition)

    assert failed[work_unit(1, "b")].status == FAILED
    assert [entry.signature for entry in found.changed] == [work_unit(1, "b")]
    assert story.states()[work_unit(1, "b")].status == COMMITTED
    assert story.run(day(4)).status is RunStatus.NOTHING_DUE
    assert story.rows() == ids_of("a", "b", days=range(4))
    assert story.head()


def test_undo_makes_failed_again_what_had_failed(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["job__commit__policy"] = "successful"
    source.faults.append(failing(1, "b"))
    story.run(day(4))
    failed = story.states()
    source.faults.clear()
    definition = backfills.take(range(1, 3))
    backfills.publish(definition)

    backfills.undo(definition)

    assert story.states() == failed
    assert story.run(day(4)).units.planned == 1
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_a_partition_that_was_read_in_part_is_read_up_to_there(
    story: Story, backfills: Backfills
) -> None:
    story.changes["ms__work__unit__partial__partition"] = "true"
    story.changes["ms__publish__mode"] = "append"
    story.changes["ms__watermark"] = json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}},
            {"name": "unit", "type": "unit", "units": "a,b"},
        ]
    )
    noon = day(3) + 12 * 3_600_000
    story.run(noon)

    definition = backfills.take(range(3, 4))
    assert {unit.high for unit in definition.plan.work_units} == {noon}
    backfills.publish(definition, RowDecision.REPLACE)
    story.run(day(4))

    assert story.rows() == ids_of("a", "b", days=range(4))


# Files that belong to no single work unit


def test_rows_that_were_put_together_with_others_are_not_doubled(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__publish__mode"] = "append"
    for number in range(1, 5):
        story.run(day(number))
    compact(story.job(), CompactionRequest(backfills.clock, target_bytes=10**9))
    story.drop_units()
    compacted = story.rows()
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))

    with pytest.raises(StateError, match="rows of several work units"):
        backfills.publish(definition, RowDecision.REPLACE)

    assert story.rows() == compacted == ids_of("a", "b", days=range(4))
    backfills.publish(definition, RowDecision.APPEND)
    assert story.rows() == compacted + ids_of("a", "b", days=range(1, 3))


def test_rows_in_a_file_of_several_work_units_are_replaced_and_brought_back(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__publish__mode"] = "append"
    story.changes["ms__output__file__per__work__unit"] = "false"
    story.run(day(4))
    (shared,), before = visible_files(story.folder), notes_of(story)
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3))

    backfills.publish(definition, RowDecision.REPLACE)

    assert story.rows() == ids_of("a", "b", days=range(4))
    assert len(visible_files(story.folder)) == 5
    assert notes_of(story) == source_notes(source, range(4)) != before
    backfills.undo(definition)
    assert (visible_files(story.folder), notes_of(story)) == ([shared], before)


def test_a_merge_that_lost_files_is_given_up_as_a_whole(
    story: Story, source: HttpServer, backfills: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(MERGED)
    story.run(day(4))
    before, states = notes_of(story), story.states()
    take_away(source, "a", 9)
    definition = backfills.take(range(1, 3))
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", cut_off)
        with pytest.raises(CutOffError):
            backfills.publish(definition)

    with story.store() as store:
        pending = store.pending_intent()
        assert pending is not None
        rewritten = [move for move in pending.commit.moves if not move.target.signature]
        Path(rewritten[0].source).unlink()
        found = run_history.recorded_publish(story.job(), store)
        assert found is not None
        assert found.lost
        with leased(story.job(), store, "finish", backfills.clock) as lease:
            run_history.finish_publish(story.job(), store, lease, found)

    assert (notes_of(story), story.states()) == (before, states)
    assert story.head()
    assert story.run(day(5)).status is RunStatus.SUCCESS


class CutOffError(Exception):
    """The process is gone."""


def cut_off(*_: object) -> None:
    raise CutOffError
