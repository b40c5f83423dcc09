"""Appending to derived datasets: every rule against the stored inputs, and who may come between."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import StateError
from dil.model.dataset import Commit
from dil.model.derived import QueryStep
from dil.model.event_tally import EVENT_TIME
from dil.state.blocks.events import Checkpoint, ConfigEvent, DataEvent, InputSlice, Seed
from dil.state.blocks.verification import verify_chain
from dil.state.chain.chain_rows import read_tip
from dil.state.derived.planning import QueryPlan
from dil.state.store.sql_store import SqlStateStore
from tests.unit.state.derived_store import HOUR, NOW, Store, mark, slice_of, transform

CHECKPOINT = Checkpoint("f1220c1", 64)
INFO = ConfigEvent("SetInfo", {"text": "x"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    store.root("in")
    store.derived("out", "in")
    for hours in range(4):
        store.add("in", 10, hours)
    yield store
    store.database.close()


@pytest.fixture
def plan(store: Store) -> QueryPlan:
    """Return a plan behind one transaction that took blocks up to 3 and left a checkpoint."""
    first = store.plan("out")
    assert first is not None
    taken = replace(
        first.event,
        inputs=(store.slice("in", (None, 3), None, 19),),
        new_watermark=mark(1),
        new_checkpoint=CHECKPOINT,
        new_data=slice_of(0, 2),
    )
    assert store.query("out", replace(first, event=taken)) is not None
    found = store.plan("out")
    assert found is not None
    return found


def taken(plan: QueryPlan, **changes: object) -> tuple[InputSlice, ...]:
    return (replace(plan.event.inputs[0], **changes),)


def test_output_goes_on_where_the_last_one_ended(store: Store, plan: QueryPlan) -> None:
    event = store.query("out", plan, new_data=slice_of(2, 3))
    assert isinstance(event, DataEvent)
    assert (event.prev_offset, event.last_offset) == (1, 4)
    assert event.prev_checkpoint == "f1220c1"
    assert event.inputs == (store.slice("in", (3, 5), 19, 39),)
    assert store.plan("out") is None


def test_each_damage_of_a_planned_transaction_has_its_code(store: Store, plan: QueryPlan) -> None:
    second, third, unknown = store.hash_of("in", 2), store.hash_of("in", 3), "f1220" + "0" * 64
    cases: list[tuple[dict[str, object], str]] = [
        ({"prev_offset": None}, "V10"),
        ({"new_data": slice_of(3, 1)}, "V11"),
        ({"prev_checkpoint": None}, "V15"),
        ({"new_checkpoint": None}, "V16"),
        ({"new_watermark": mark(0)}, "V17"),
        ({"new_watermark": mark(25)}, "V18"),
        ({"inputs": None}, "V08"),
        ({"inputs": ()}, "V39"),
        ({"inputs": taken(plan, dataset_id="else")}, "V31"),
        ({"inputs": plan.event.inputs * 2}, "V39"),
        ({"inputs": taken(plan, prev_block_hash=second)}, "V32"),
        ({"inputs": taken(plan, prev_offset=18)}, "V33"),
        ({"inputs": taken(plan, prev_offset=None)}, "V33"),
        ({"inputs": taken(plan, new_block_hash=unknown)}, "V34"),
        ({"inputs": taken(plan, new_block_hash=second)}, "V34"),
        ({"inputs": taken(plan, new_block_hash=third)}, "V34"),
        ({"inputs": taken(plan, new_block_hash=None)}, "V35"),
        ({"inputs": taken(plan, new_offset=19)}, "V36"),
        ({"inputs": taken(plan, new_offset=38)}, "V37"),
        ({"inputs": taken(plan, new_offset=None)}, "V37"),
        ({"new_watermark": mark(4)}, "V38"),
    ]
    for changes, code in cases:
        with pytest.raises(StateError, match=rf"^{code}: "):
            store.query("out", plan, **changes)
    assert store.query("out", plan) is not None


def test_a_block_of_another_chain_is_no_block_of_the_input(store: Store, plan: QueryPlan) -> None:
    store.root("twin")
    store.add("twin", 90)
    foreign = taken(plan, new_block_hash=store.hash_of("twin", 2), new_offset=89)
    with pytest.raises(StateError, match=r"^V34: "):
        store.query("out", plan, inputs=foreign)


def test_an_event_that_changes_nothing_is_not_written(store: Store, plan: QueryPlan) -> None:
    idle = {
        "inputs": taken(plan, new_block_hash=None, new_offset=None),
        "new_watermark": mark(1),
    }
    assert store.query("out", plan, **idle) is None
    assert store.plan("out") == plan


def test_blocks_seen_without_rows_or_watermark_are_a_valid_commit(store: Store) -> None:
    """The rule 4.1, which the reference implementation's emptiness check breaks."""
    store.advance("out")
    store.config("in", INFO)
    plan = store.plan("out")
    assert plan is not None
    event = store.query("out", plan)
    assert isinstance(event, DataEvent)
    assert event.inputs == (store.slice("in", (5, 6), 39, None),)
    assert event.new_watermark == mark(3)


# Who comes between plan and commit


def test_another_query_in_between_is_never_rebased(store: Store, plan: QueryPlan) -> None:
    assert store.query("out", plan) is not None
    with pytest.raises(StateError, match=r"^V32: "):
        store.query("out", plan)
    store.add("in", 1)
    again = store.plan("out")
    assert again is not None
    assert store.query("out", again) is not None


def test_a_harmless_config_event_in_between_only_moves_the_block(
    store: Store, plan: QueryPlan
) -> None:
    with store.database.read() as tx:
        before = read_tip(tx, "out")
    store.config("out", INFO, ConfigEvent("ext.acme.Note", {"text": "y"}))
    assert store.query("out", plan) is not None
    with store.database.read() as tx:
        tip = read_tip(tx, "out")
    assert before is not None
    assert tip is not None
    assert tip.head.sequence == before.head.sequence + 3
    assert verify_chain(SqlStateStore(store.database, "out", clock=lambda: NOW)).is_sound


def test_new_blocks_of_the_input_disturb_no_plan(store: Store, plan: QueryPlan) -> None:
    store.add("in", 10, 9)
    event = store.query("out", plan)
    assert isinstance(event, DataEvent)
    assert event.inputs == (store.slice("in", (3, 5), 19, 39),)
    assert store.advance("out") == (store.slice("in", (5, 6), 39, 49),)


# Two datasets, resets, config


def test_two_derived_datasets_of_one_store_consume_the_same_input_apart(store: Store) -> None:
    store.derived("twin", "in")
    store.advance("out")
    assert store.plan("out") is None
    assert store.advance("twin") == (store.slice("in", (None, 5), None, 39),)
    for dataset in ("in", "out", "twin"):
        report = verify_chain(SqlStateStore(store.database, dataset, clock=lambda: NOW))
        assert report.is_sound
        assert report.blocks


def test_after_a_reset_the_watermark_may_fall_once(store: Store, plan: QueryPlan) -> None:
    store.config("out", ConfigEvent("ResetState", {"fields": ["watermark", "checkpoint"]}))
    again = store.plan("out")
    assert again is not None
    event = store.query("out", again, new_watermark=None, new_checkpoint=None)
    assert isinstance(event, DataEvent)
    store.add("in", 1)
    after = store.plan("out")
    assert after is not None
    assert (after.event.prev_checkpoint, after.event.new_checkpoint) == (None, None)
    assert after.event.new_watermark == mark(3)


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (transform(), "V39"),
        (transform("in", "in"), "V39"),
        (transform(""), "V39"),
        (ConfigEvent("SetTransform", {}), "V39"),
        (ConfigEvent("SetTransform", {"inputs": [{"id": "in"}]}), "V39"),
        (ConfigEvent("SetDataSchema", {}), "V14"),
        (ConfigEvent("SetPollingSource", {"configDigest": "d"}), "V08"),
        (ConfigEvent("AddPushSource", {}), "V08"),
        (ConfigEvent("SetMood", {}), "V07"),
        (ConfigEvent("CloseBooks", {}), "V24"),
        (ConfigEvent("ResetState", {"fields": ["everything"]}), "V07"),
        (ConfigEvent("ResetState", {"fields": []}), "V07"),
        (Seed("out", "Derivative"), "V02"),
    ],
)
def test_a_config_event_that_is_wrong_is_refused(
    store: Store, event: ConfigEvent | Seed, code: str
) -> None:
    with pytest.raises(StateError, match=rf"^{code}: "):
        store.config("out", event)


def test_nothing_of_a_refused_act_is_written(store: Store) -> None:
    with pytest.raises(StateError, match=r"^V39: "):
        store.config("new", Seed("new", "Derivative"), transform())
    with store.database.read() as tx:
        assert read_tip(tx, "new") is None
        assert tx.rows("SELECT seq FROM mc_block WHERE dataset_id = 'new'") == []


def test_a_watermark_that_the_rows_held_back_never_falls(store: Store) -> None:
    """A watermark of rows begins anew below its last value if its state was lost."""
    text = json.dumps(transform("in").body)
    found = []
    for run, hours in (("r1", -2), ("r2", -5)):
        store.add("in", 1)
        plan = store.plan("out")
        assert plan is not None
        step = QueryStep(text, plan.event.inputs, plan.event.new_watermark)
        rows = {EVENT_TIME: {"strategy": "bounded", "watermark": NOW + hours * HOUR}}
        out = SqlStateStore(store.database, "out", clock=lambda: NOW)
        lease = out.acquire_lease(run, lease_s=60)
        commit = Commit(run, "c", "dil/out", (), (), "s", NOW, NOW, query=step, checkpoints=rows)
        out.commit(lease, commit)
        out.release_lease(lease)
        head = out.head()
        assert head is not None
        found.append(head["event"]["newWatermark"])
    assert found == [mark(-2), mark(-2)]
