"""The block of a micro-batch: it names the micro-batch, and the offset at which it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.model.dataset import Commit, RunWork, WorkUnitOutcome
from dil.model.event_tally import EVENT_TIME
from dil.model.job import StateSpec
from dil.model.json import JsonObject
from dil.model.stream import STREAM, MicroBatch
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from dil.state.store import committing

NOW = 1_735_689_600_000
HOUR = 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    with open_store(StateSpec("sqlite", str(tmp_path)), "orders", clock=lambda: NOW) as opened:
        yield opened


def signature(hour: int) -> str:
    return f"[watermark.dt.{hour * HOUR}, watermark.u.{{}}]"


def outcome(hour: int, *, ok: bool = True) -> WorkUnitOutcome:
    low, high = hour * HOUR, (hour + 1) * HOUR
    return WorkUnitOutcome(signature(hour), "u.{}", low, high, high if ok else None, 1)


def commit(
    store: StateStore, run: str, *outcomes: WorkUnitOutcome, **checkpoints: JsonObject
) -> dict:
    lease = store.acquire_lease(run, lease_s=60)
    work = RunWork(outcomes)
    store.commit(
        lease,
        Commit(run, "c", "dil/orders", (), (), "", NOW, NOW, work, checkpoints=checkpoints),
    )
    store.release_lease(lease)
    assert verify_chain(store).problems == ()
    head = store.head()
    assert head is not None
    return head["event"]


def batch(number: int) -> JsonObject:
    return MicroBatch("epoch-1", number).members()


def test_a_micro_batch_ends_at_the_frontier_and_lists_what_it_read_above(
    store: StateStore,
) -> None:
    found = [outcome(0), outcome(1, ok=False), outcome(2), outcome(3)]
    event = commit(store, "r1", *found, **{STREAM: batch(0)})

    end = {
        "v": 1,
        "epoch": "epoch-1",
        "stateVersion": 1,
        "done": HOUR,
        "open": {signature(2): {"high": 3 * HOUR}, signature(3): {"high": 4 * HOUR}},
    }
    assert event["newSourceState"]["value"]["stream"] == {**batch(0), "end": end}
    assert store.checkpoint(STREAM) == {**batch(0), "end": end}
    sources = [
        block["event"]["stream"]
        for block in store.blocks()
        if block["event"]["kind"] == "SetPollingSource"
    ]
    assert sources == [{"epoch": "epoch-1"}]

    event = commit(store, "r2", outcome(1), **{STREAM: batch(1)})
    assert event["newSourceState"]["value"]["stream"]["end"] == {
        **end,
        "stateVersion": 2,
        "done": 4 * HOUR,
        "open": {},
    }


def test_an_offset_above_many_work_units_has_the_digest_of_all_of_them(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "MOST_OPEN", 1)
    found = [outcome(0, ok=False), outcome(1), outcome(2)]
    state = commit(store, "r1", *found, **{STREAM: batch(0)})["newSourceState"]["value"]

    end = state["stream"]["end"]
    assert (end["open"], end["digest"]) == ({}, state["digest"])


@pytest.mark.parametrize(("hours", "mark"), [(1, "01:00"), (5, "02:00")])
def test_the_watermark_waits_for_the_event_watermark(
    store: StateStore, hours: int, mark: str
) -> None:
    """Rows before it may still come, so it is a limit; while it is unset, nothing moves."""
    unset = {EVENT_TIME: {"watermark": None}}
    assert commit(store, "r1", outcome(0), **unset)["newWatermark"] is None
    known = {EVENT_TIME: {"watermark": hours * HOUR}}
    reached = f"1970-01-01T{mark}:00.000Z"
    assert commit(store, "r2", outcome(1), **known)["newWatermark"] == reached
    assert commit(store, "r3", outcome(2), **unset)["newWatermark"] == reached
