"""What the next transaction of a derived dataset takes, and from how few rows that is known."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import StateError
from dil.model.derived import WindowSpec
from dil.state.blocks.events import ConfigEvent, Seed
from dil.state.chain import as_of
from dil.state.derived import inputs
from dil.state.derived.earlier_inputs import refuse_inputs_read_before, refuse_other_reading
from dil.state.derived.planning import SliceLimits, windows_emitted_until
from tests.unit.state.derived_store import (
    HOUR,
    NOW,
    Store,
    counting,
    mark,
    plan_in_store,
    schema,
    statements_of,
    transform,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    store.root("in")
    store.derived("out", "in")
    yield store
    store.database.close()


def test_the_first_transaction_takes_everything_from_nulls(store: Store) -> None:
    store.add("in", 10, 1)
    store.add("in", 0, 3)
    plan = store.plan("out")
    assert plan is not None
    assert plan.event.inputs == (store.slice("in", (None, 3), None, 9),)
    assert plan.event.new_watermark == mark(3)
    assert plan.data_sequence is None


def test_the_next_transaction_takes_what_came_since(store: Store) -> None:
    store.add("in", 10, 1)
    store.advance("out")
    store.add("in", 5)
    store.add("in", 0, 2)
    assert store.advance("out") == (store.slice("in", (2, 4), 9, 14),)


def test_blocks_without_rows_advance_the_blocks_alone(store: Store) -> None:
    store.add("in", 10, 1)
    store.advance("out")
    store.add("in", 0, 2)
    assert store.advance("out") == (store.slice("in", (2, 3), 9, None),)


def test_an_input_whose_only_record_has_offset_0_is_read_once(store: Store) -> None:
    """Null is never 0: neither is the record overlooked, nor read again."""
    store.add("in", 1)
    plan = store.plan("out")
    assert plan is not None
    assert plan.event.inputs == (store.slice("in", (None, 2), None, 0),)
    assert store.query("out", plan) is not None
    assert store.plan("out") is None
    store.add("in", 0, 1)
    assert store.advance("out") == (store.slice("in", (2, 3), 0, None),)


def test_nothing_new_is_no_transaction(store: Store) -> None:
    store.add("in", 10, 1)
    store.advance("out")
    assert store.plan("out") is None
    store.config("out", ConfigEvent("SetInfo", {"text": "x"}))
    assert store.plan("out") is None


def test_an_input_without_data_is_taken_up_to_its_head(store: Store) -> None:
    assert store.advance("out") == (store.slice("in", (None, 1), None, None),)
    assert store.plan("out") is None


def test_a_transaction_takes_at_most_so_many_blocks(store: Store) -> None:
    for _ in range(5):
        store.add("in", 10)
    limits = SliceLimits(blocks=3)
    assert store.advance("out", limits) == (store.slice("in", (None, 2), None, 9),)
    assert store.advance("out", limits) == (store.slice("in", (2, 5), 9, 39),)
    assert store.advance("out", limits) == (store.slice("in", (5, 6), 39, 49),)
    assert store.plan("out", limits) is None


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (10, [(2, 9), (4, 19), (5, 49), (6, 59)]),
        (29, [(4, 19), (5, 49), (6, 59)]),
        (20, [(4, 19), (5, 49), (6, 59)]),
        (40, [(4, 19), (6, 59)]),
        (50, [(5, 49), (6, 59)]),
        (60, [(6, 59)]),
        (1, [(2, 9), (4, 19), (5, 49), (6, 59)]),
    ],
)
def test_a_transaction_takes_whole_blocks_up_to_so_many_rows(
    store: Store, rows: int, ends: list[tuple[int, int]]
) -> None:
    for count, hours in ((10, 1), (0, 2), (10, 3), (30, 4), (10, 5)):
        store.add("in", count, hours)
    taken = []
    while plan := store.plan("out", SliceLimits(rows=rows)):
        (item,) = plan.event.inputs
        taken.append((item.new_block_hash, item.new_offset))
        assert store.query("out", plan) is not None
    known = {store.hash_of("in", sequence): sequence for sequence in range(7)}
    found = [(known[block], offset) for block, offset in taken]
    assert [offset for _, offset in found if offset is not None] == [end for _, end in ends]
    assert found[-1][0] == 6


def test_the_rows_of_a_short_slice_are_those_before_the_block_that_is_too_much(
    store: Store,
) -> None:
    store.add("in", 10, 1)
    store.add("in", 0, 2)
    store.add("in", 10, 3)
    plan = store.plan("out", SliceLimits(rows=10))
    assert plan is not None
    assert plan.event.inputs == (store.slice("in", (None, 3), None, 9),)
    assert plan.event.new_watermark == mark(2)


@pytest.mark.parametrize("limits", [{"blocks": 0}, {"rows": 0}, {"rows": -1}])
def test_a_limit_below_1_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SliceLimits(**limits)


def test_blocks_without_rows_before_a_block_that_is_too_large_are_taken_with_it(
    store: Store,
) -> None:
    store.add("in", 10)
    store.advance("out")
    store.add("in", 0, 1)
    store.add("in", 30)
    limits = SliceLimits(rows=20)
    assert store.advance("out", limits) == (store.slice("in", (2, 4), 9, 39),)


def test_a_slice_never_ends_before_the_block_that_was_reached(store: Store) -> None:
    """A slice that went on for removed files may have passed the last block to take."""
    store.add("in", 10)
    store.add("in", 10)
    store.advance("out")
    store.add("in", 10)
    assert store.plan("out", SliceLimits(until={"in": 2})) is None


def test_a_change_of_schema_ends_the_slice_before_it(store: Store) -> None:
    store.add("in", 10)
    store.config("in", schema("s2"))
    store.add("in", 10)
    store.add("in", 10)
    store.config("in", schema("s3"))
    assert store.advance("out") == (store.slice("in", (None, 2), None, 9),)
    assert store.advance("out") == (store.slice("in", (2, 5), 9, 29),)
    assert store.advance("out") == (store.slice("in", (5, 6), 29, None),)
    assert store.plan("out") is None


def test_the_first_schema_does_not_end_a_slice_that_has_no_rows_before_it(store: Store) -> None:
    store.config("bare", Seed("bare", "Root"))
    store.derived("all", "bare")
    store.add("bare", 0, 1)
    store.config("bare", schema("s1"))
    store.add("bare", 10, 2)
    store.config("bare", schema("s2"))
    store.add("bare", 10, 3)
    assert store.advance("all") == (store.slice("bare", (None, 3), None, 9),)
    assert store.advance("all") == (store.slice("bare", (3, 5), 9, 19),)


def test_a_new_transform_of_the_input_ends_the_slice_before_it(store: Store) -> None:
    store.derived("far", "out")
    store.add("in", 10)
    store.advance("out")
    store.config("out", transform("in"))
    store.add("in", 10)
    store.advance("out")
    assert store.advance("far") == (store.slice("out", (None, 3), None, None),)
    assert store.advance("far") == (store.slice("out", (3, 5), None, None),)


def test_a_new_configuration_of_the_source_ends_no_slice(store: Store) -> None:
    store.add("in", 10)
    store.config("in", ConfigEvent("SetPollingSource", {"configDigest": "d2"}))
    store.add("in", 10)
    assert store.advance("out") == (store.slice("in", (None, 4), None, 19),)


def test_the_watermark_is_the_least_of_the_inputs(store: Store) -> None:
    store.root("slow")
    store.derived("both", "in", "slow")
    store.add("in", 10, 5)
    plan = store.plan("both")
    assert plan is not None
    assert plan.event.new_watermark is None
    store.add("slow", 1, 2)
    plan = store.plan("both")
    assert plan is not None
    assert plan.event.new_watermark == mark(2)
    store.query("both", plan)
    store.add("in", 0, 9)
    plan = store.plan("both")
    assert plan is not None
    assert [item.new_block_hash is None for item in plan.event.inputs] == [False, True]
    assert plan.event.new_watermark == mark(2)


def test_after_a_new_transform_kept_inputs_carry_over_and_added_ones_start_with_nulls(
    store: Store,
) -> None:
    store.root("more")
    store.add("in", 10, 5)
    store.add("more", 3, 1)
    store.advance("out")
    store.config("out", transform("more", "in"))
    plan = store.plan("out")
    assert plan is not None
    assert plan.event.inputs == (
        store.slice("more", (None, 2), None, 2),
        store.slice("in", (2, None), 9, None),
    )
    assert plan.event.new_watermark == mark(5)
    assert store.query("out", plan) is not None
    store.config("out", transform("more"))
    store.add("more", 0, 7)
    assert store.advance("out") == (store.slice("more", (2, 3), 2, None),)


def test_an_input_that_was_made_anew_is_an_error_and_never_a_restart(store: Store) -> None:
    store.add("in", 10)
    store.advance("out")
    with store.database.write() as tx:
        tx.change("DELETE FROM mc_block WHERE dataset_id = 'in'")
        tx.change("DELETE FROM mc_head WHERE dataset_id = 'in'")
    store.config("in", Seed("in", "Root"), schema("another"))
    store.add("in", 3)
    with pytest.raises(StateError, match=r"^V40: InvalidInputInterval"):
        store.plan("out")


def test_a_head_that_points_to_another_block_than_the_last_query_is_refused(store: Store) -> None:
    store.add("in", 1)
    store.advance("out")
    with store.database.write() as tx:
        tx.change("UPDATE mc_head SET data_seq = 1 WHERE dataset_id = 'out'")
    with pytest.raises(StateError, match="contradicts its block 1, which holds SetTransform"):
        store.plan("out")


@pytest.mark.parametrize(("closed", "bodies"), [(True, 1), (None, 2)])
def test_how_an_input_was_read_is_in_its_slice_or_else_in_the_transform(
    store: Store, closed: bool | None, bodies: int
) -> None:
    """Slices of earlier releases do not say it."""
    how = {"inputs": ["in"], "engine": "spark", "query": "q"}
    store.config("out", ConfigEvent("SetTransform", {**how, "closed": ["in"]}))
    store.add("in", 1)
    plan = store.plan("out")
    store.query(
        "out", plan, inputs=tuple(replace(each, closed=closed) for each in plan.event.inputs)
    )
    store.add("in", 1)
    with counting(store.database) as tx:
        slices = plan_in_store(tx, "out", inputs=("in",)).event.inputs
        refuse_other_reading(tx, "out", slices, frozenset({"in"}))
    assert tx.bodies["out"] == bodies

    with store.database.read() as tx, pytest.raises(StateError, match="closed is not set, and"):
        refuse_other_reading(tx, "out", slices, frozenset())
    store.config("out", ConfigEvent("SetTransform", how))  # of a full reading that found nothing
    with store.database.read() as tx, pytest.raises(StateError, match="closed is set, and rows"):
        refuse_other_reading(tx, "out", slices, frozenset({"in"}))


@pytest.mark.parametrize("statement", statements_of(vars(inputs), vars(as_of)))
def test_each_statement_walks_an_index_and_sorts_nothing(store: Store, statement: str) -> None:
    with store.database.write() as tx:
        steps = tx.rows(f"EXPLAIN QUERY PLAN {statement}", *[1] * statement.count("?"))
    details = [step[3] for step in steps]
    assert details
    assert all(detail.startswith("SEARCH") for detail in details)


def windows(hours: int) -> ConfigEvent:
    """Return a transform that emits windows of so many hours."""
    query = WindowSpec("at", hours * HOUR, hours * HOUR, (), (("n", "count(*)"),)).query("in")
    return ConfigEvent("SetTransform", {"inputs": ["in"], "engine": "spark", "query": query})


def test_windows_of_an_earlier_length_that_ended_later_do_not_come_again(store: Store) -> None:
    store.config("out", windows(1))
    store.add("in", 10, 5)
    store.advance("out")
    store.config("out", windows(24))
    store.add("in", 10, 6)
    store.advance("out")
    with store.database.read() as tx:
        assert windows_emitted_until(tx, "out") == NOW + 5 * HOUR


@pytest.mark.parametrize("mode", ["append", "full"])
def test_an_input_that_comes_back_is_read_from_its_beginning_only_after_all_rows_were_made_anew(
    store: Store, mode: str
) -> None:
    store.root("other")
    store.add("in", 10, 1)
    store.advance("out")
    left_out = {"inputs": ["other"], "engine": "spark", "query": "q", "mode": mode}
    store.config("out", ConfigEvent("SetTransform", left_out))
    store.advance("out")
    back = (store.slice("in", (None, 2), None, 9),)
    with store.database.read() as tx:
        if mode == "full":
            refuse_inputs_read_before(tx, "out", back)
            return
        with pytest.raises(StateError):
            refuse_inputs_read_before(tx, "out", back)
