"""The IoT case: a long chain of commits, nearly all without output."""

from collections.abc import Iterator

import pytest

from dil.state.blocks.events import DataEvent
from dil.state.chain.chain_rows import read_block_at
from dil.state.derived.planning import SliceLimits
from tests.unit.state.derived_store import Store, append_query, counting, plan_in_store
from tests.unit.state.long_chains import JANUARY, ROWS, write_long_chains

pytestmark = pytest.mark.slow

COMMITS = 200_000
INPUT_BLOCKS = 20_000
JOINED = COMMITS // INPUT_BLOCKS * ROWS


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("iot"))
    write_long_chains(store, commits=COMMITS, input_blocks=INPUT_BLOCKS)
    yield store
    store.database.close()


def test_a_plan_reads_one_block_of_each_chain_however_long_they_are(store: Store) -> None:
    store.add("in", ROWS, 1)
    with counting(store.database) as tx:
        plan = plan_in_store(tx, "out", inputs=("in",))
    assert plan is not None
    assert tx.bodies == {"out": 1, "in": 1}
    assert (tx.statements, tx.rows_read) == (6, 6)
    (item,) = plan.event.inputs
    assert plan.event.prev_offset == 499
    assert item.prev_offset == ROWS * COMMITS - 1
    assert item.new_offset == ROWS * (COMMITS + 1) - 1
    assert item.prev_block_hash == store.hash_of("in", INPUT_BLOCKS + 1)


def test_a_commit_on_it_is_checked_by_every_rule_from_a_handful_of_rows(store: Store) -> None:
    store.add("in", ROWS, 2)
    plan = store.plan("out")
    assert plan is not None
    with counting(store.database, writing=True) as tx:
        assert append_query(tx, "out", plan.event) is not None
    assert tx.bodies == {"out": 4, "in": 2}
    assert tx.rows_read <= 16


def test_a_plan_far_behind_finds_its_end_by_bisection(store: Store) -> None:
    store.derived("late", "in")
    with counting(store.database) as tx:
        plan = plan_in_store(tx, "late", SliceLimits(rows=12_345), ("in",))
    assert plan is not None
    assert sum(each.rows for each in plan.event.inputs or ()) == 12_000
    assert tx.rows_read < 100
    with counting(store.database) as tx:
        plan = plan_in_store(tx, "late", SliceLimits(blocks=5_000), ("in",))
    assert plan is not None
    assert plan.event.inputs == (store.slice("in", (None, 4_999), None, 4_998 * JOINED - 1),)
    # The end is found by bisection; the bodies name the files, which must all be live.
    assert tx.bodies == {"in": 4_999}


def test_the_fast_chain_is_a_true_one(store: Store) -> None:
    with store.database.read() as tx:
        for sequence in (3, JANUARY + 2, JANUARY + 3, COMMITS + 2):
            event = read_block_at(tx, "out", sequence).event
            assert isinstance(event, DataEvent)
            assert event.inputs is not None
            assert event.inputs[0].rows == ROWS
        month = read_block_at(tx, "out", JANUARY + 2).event
    assert isinstance(month, DataEvent)
    assert (month.prev_offset, month.last_offset) == (None, 499)
