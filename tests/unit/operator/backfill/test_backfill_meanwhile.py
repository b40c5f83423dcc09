"""What runs, operators and other backfills did while a backfill was under way, or since."""

from __future__ import annotations

import json

import pytest

from dil.errors import ConfigError, StateError
from dil.model.report import RunStatus
from dil.operator import amendments
from dil.operator.backfill.publication import RowDecision
from dil.operator.compaction import CompactionRequest, compact
from tests.backfills import Backfills, correct, late_row, notes_of, source_notes
from tests.servers.http_server import Fault, HttpServer
from tests.stories import ROWS_PER_DAY, Story, day, failing, ids_of, work_unit


def test_a_work_unit_that_runs_read_further_since_stays_out(
    story: Story, backfills: Backfills
) -> None:
    story.changes["ms__work__unit__partial__partition"] = "true"
    story.changes["ms__watermark"] = json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}},
            {"name": "unit", "type": "unit", "units": "a,b"},
        ]
    )
    story.run(day(3) + 12 * 3_600_000)
    definition = backfills.take(range(2, 4))
    story.run(day(4))

    assert backfills.propose(definition).stale == (work_unit(3, "a"), work_unit(3, "b"))
    with pytest.raises(StateError, match="changed in the job since"):
        backfills.publish(definition)
    backfills.publish(definition, is_partial=True)

    assert story.rows() == ids_of("a", "b", days=range(4))


def test_a_work_unit_that_runs_read_anew_since_keeps_their_rows(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__grace__period__days"] = "2"
    story.run(day(4))
    definition = backfills.take(range(4))
    late_row(source, "a", 3, 900)
    story.run(day(5))

    assert set(backfills.propose(definition).stale) == {
        work_unit(number, unit) for number in (2, 3) for unit in ("a", "b")
    }
    with pytest.raises(StateError, match="changed in the job since"):
        backfills.publish(definition)
    backfills.publish(definition, is_partial=True)

    assert notes_of(story) == source_notes(source, range(5))


def test_a_work_unit_that_a_run_failed_to_read_anew_may_be_published(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes.update(ms__grace__period__days="3", job__commit__policy="successful")
    story.run(day(4))
    correct(source, "b", 9)
    definition = backfills.take(range(2, 3), "b")
    source.faults.append(failing(2, "b"))
    assert story.run(day(4)).status is RunStatus.PARTIAL
    source.faults.clear()

    assert backfills.propose(definition).stale == ()
    backfills.publish(definition)

    assert notes_of(story) == source_notes(source, range(4))


def test_the_rows_of_a_later_backfill_stand(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.run(day(4))
    early = backfills.take(range(1, 3))
    late_row(source, "a", 1, 900)
    backfills.publish(backfills.take(range(1, 2), "a"))

    assert backfills.propose(early).stale == (work_unit(1, "a"),)
    backfills.publish(early, is_partial=True)

    assert notes_of(story) == source_notes(source, range(4))


def test_a_compaction_meanwhile_makes_nothing_stale(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__publish__mode"] = "append"
    for number in range(1, 5):
        story.run(day(number))
    definition = backfills.take(range(1, 3))
    compact(story.job(), CompactionRequest(backfills.clock, target_bytes=10**9))

    assert backfills.propose(definition, RowDecision.APPEND).stale == ()
    backfills.publish(definition, RowDecision.APPEND)

    assert story.rows() == ids_of("a", "b", days=range(4)) + ids_of("a", "b", days=range(1, 3))


def test_what_another_configuration_read_is_not_published(
    story: Story, backfills: Backfills
) -> None:
    story.run(day(4))
    before = story.rows()
    definition = backfills.take(range(1, 3))
    story.changes["writer__output__format"] = "CSV"

    with pytest.raises(ConfigError, match="another configuration"):
        backfills.publish(definition)
    del story.changes["writer__output__format"]
    backfills.publish(definition)

    assert story.rows() == before


def test_a_work_unit_that_was_forgotten_since_is_not_published_twice(
    story: Story, backfills: Backfills
) -> None:
    story.run(day(4))
    definition = backfills.take(range(1, 3))
    with (
        story.store() as store,
        amendments.open_session(
            story.job(), store, "forget", now_ms=day(4), clock=backfills.clock
        ) as session,
    ):
        one = amendments.Selection(signatures=frozenset({work_unit(1, "a")}))
        amendments.apply(
            session, amendments.propose_forget(session, one, amendments.FileDecision.WITHDRAW)
        )

    assert backfills.propose(definition).stale == (work_unit(1, "a"),)
    backfills.publish(definition, is_partial=True)
    story.run(day(4))

    assert story.rows() == ids_of("a", "b", days=range(4))


def without_rows(source: HttpServer, unit: str, number: int) -> None:
    """Take all rows of a day away from the source."""
    held = source.dataset.units[unit]
    rows = slice(number * ROWS_PER_DAY, (number + 1) * ROWS_PER_DAY)
    del held.times[rows], held.encoded[rows]


SHARING = {
    "put together by dil compact": ({"ms__publish__mode": "window_replace"}, RowDecision.UNDECIDED),
    "shared by its run": (
        {"ms__publish__mode": "append", "ms__output__file__per__work__unit": "false"},
        RowDecision.REPLACE,
    ),
}


def share_files(story: Story, case: str) -> RowDecision:
    """Publish four days, of which work units share files; return how backfills are published."""
    changes, decision = SHARING[case]
    story.changes.update(changes)
    story.run(day(4))
    compact(story.job(), CompactionRequest(lambda: story.clock))
    assert any(file["units"] for file in story.manifest()["files"] if "units" in file)
    return decision


@pytest.mark.parametrize("case", SHARING)
def test_rows_that_a_later_backfill_found_deleted_do_not_come_back_into_a_shared_file(
    case: str, story: Story, source: HttpServer, backfills: Backfills
) -> None:
    decision = share_files(story, case)
    early = backfills.take(range(1, 2))
    without_rows(source, "a", 1)
    backfills.publish(backfills.take(range(1, 2), "a"), decision)
    left = ids_of("a", "b", days=range(4)) - ids_of("a", days=range(1, 2))
    assert story.rows() == left

    assert backfills.propose(early, decision).stale == (work_unit(1, "a"),)
    with pytest.raises(StateError, match="changed in the job since"):
        backfills.publish(early, decision)
    backfills.publish(early, decision, is_partial=True)

    assert story.rows() == left
    story.head()


@pytest.mark.parametrize("case", SHARING)
def test_a_work_unit_whose_shared_rows_an_undo_brought_back_stays_out(
    case: str, story: Story, source: HttpServer, backfills: Backfills
) -> None:
    decision = share_files(story, case)
    without_rows(source, "a", 1)
    first = backfills.take(range(1, 2), "a")
    backfills.publish(first, decision)
    second = backfills.take(range(1, 2), "a")
    backfills.undo(first)

    assert backfills.propose(second, decision).stale == (work_unit(1, "a"),)
    backfills.undo(first)
    assert backfills.propose(second, decision).stale == (work_unit(1, "a"),)
    backfills.undo(first)

    assert story.rows() == ids_of("a", "b", days=range(4))
    story.head()


def test_a_failed_work_unit_that_a_later_backfill_replaced_stays_out(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    """It stays failed, because a run failed to read it further than the backfill did."""
    changes, decision = SHARING["shared by its run"]
    story.changes.update(
        changes, ms__work__unit__partial__partition="true", job__commit__policy="successful"
    )
    story.changes["ms__watermark"] = json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}},
            {"name": "unit", "type": "unit", "units": "a,b"},
        ]
    )
    noon = day(3) + 12 * 3_600_000
    story.run(noon)
    at_noon = Backfills(story, 3)
    at_noon.now_ms = noon
    early = at_noon.take(range(3, 4), "a")
    without_rows(source, "a", 3)
    later = at_noon.take(range(3, 4), "a")
    rest = (("unit", "a"), ("since", str(noon)))
    source.faults.append(Fault("status", where=rest, status=404))
    assert story.run(day(4)).status is RunStatus.PARTIAL
    source.faults.clear()
    backfills.publish(later, decision)
    assert story.states()[work_unit(3, "a")].status == "FAILED"

    assert backfills.propose(early, decision).stale == (work_unit(3, "a"),)


# Taking back what runs have read since


def test_a_work_unit_that_runs_replaced_since_is_not_doubled_by_undo(
    story: Story, backfills: Backfills
) -> None:
    story.changes["ms__grace__period__days"] = "2"
    story.run(day(4))
    definition = backfills.take(range(3, 4))
    backfills.publish(definition)
    story.run(day(5))

    with pytest.raises(StateError, match="again since"):
        backfills.undo(definition)

    assert story.rows() == ids_of("a", "b", days=range(5))


def test_rows_that_runs_replaced_since_are_not_doubled_by_undo_under_another_mode(
    story: Story, backfills: Backfills
) -> None:
    story.changes["ms__grace__period__days"] = "2"
    story.run(day(4))
    definition = backfills.take(range(3, 4))
    backfills.publish(definition)
    story.run(day(5))
    story.changes["ms__publish__mode"] = "append"

    with pytest.raises(StateError, match="again since"):
        backfills.undo(definition)

    assert story.rows() == ids_of("a", "b", days=range(5))


def test_rows_that_come_back_at_the_source_are_not_doubled_by_undo(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__grace__period__days"] = "2"
    story.run(day(4))
    held = source.dataset.units["a"]
    kept = (held.times[12:16], held.encoded[12:16])
    held.times[12:16], held.encoded[12:16] = [], []
    definition = backfills.take(range(3, 4))
    backfills.publish(definition)
    held.times[12:12], held.encoded[12:12] = kept
    story.run(day(5))

    with pytest.raises(StateError, match="again since"):
        backfills.undo(definition)

    assert story.rows() == ids_of("a", "b", days=range(5))


def test_rows_that_runs_found_deleted_since_do_not_come_back_by_undo(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.changes["ms__grace__period__days"] = "2"
    story.run(day(4))
    without_rows(source, "a", 3)
    definition = backfills.take(range(3, 4), "a")
    backfills.publish(definition)
    story.run(day(5))
    before = story.rows()

    with pytest.raises(StateError, match="again since"):
        backfills.undo(definition)

    assert story.rows() == before


def test_what_runs_appended_since_stays_beside_what_an_undo_brings_back(
    story: Story, backfills: Backfills
) -> None:
    story.changes.update(ms__publish__mode="append", ms__grace__period__days="2")
    story.run(day(4))
    definition = backfills.take(range(3, 4))
    backfills.publish(definition, RowDecision.REPLACE)
    story.run(day(5))
    after = story.states()

    backfills.undo(definition)

    assert story.rows() == ids_of("a", "b", days=range(5)) + ids_of("a", "b", days=range(2, 4))
    assert story.states() == after
    story.head()
