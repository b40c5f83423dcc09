"""State as it was at an instant or a block, from the chain alone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import StateError
from dil.model.dataset import Commit, RunWork, WorkUnitOutcome
from dil.state.blocks.canonical import content_hash, watermark_text
from dil.state.blocks.events import ConfigEvent, Seed
from dil.state.blocks.source_state import UnitRow
from dil.state.chain.as_of import sequence_as_of, units_as_of
from dil.state.chain.chain_rows import read_block_at
from dil.state.store.sql_store import SqlStateStore
from tests.unit.state.derived_store import HOUR, NOW, Store, counting, schema


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.database.close()


def outcome(name: str, *, ok: bool = True, attempts: int = 1) -> WorkUnitOutcome:
    return WorkUnitOutcome(f"[{name}]", name, 0, HOUR, HOUR if ok else None, attempts)


def commit(store: Store, run: str, *outcomes: WorkUnitOutcome, job: str = "orders") -> int:
    """Record a run's work units; return the block's sequence."""
    base = Commit(run, "c", f"dil/{job}", (), (), "", NOW, NOW, RunWork(outcomes))
    opened = SqlStateStore(store.database, job, clock=lambda: NOW)
    sequence = opened.commit(opened.acquire_lease(run, lease_s=0), base)
    assert sequence is not None
    return sequence


def as_of(store: Store, instant: int, job: str = "orders") -> int | None:
    with store.database.read() as tx:
        return sequence_as_of(tx, job, instant)


def units(store: Store, sequence: int, job: str = "orders") -> dict[str, UnitRow]:
    with store.database.read() as tx:
        return dict(units_as_of(tx, job, sequence))


def test_the_block_in_force_is_the_last_one_that_is_not_later(store: Store) -> None:
    times = [0, 0, 5, 5, 5, 9, 20]
    events = [Seed("orders", "Root"), *[ConfigEvent("SetInfo", {"n": n}) for n in range(6)]]
    for hours, event in zip(times, events, strict=True):
        store.config("orders", event, time=NOW + hours * HOUR)
    for hour in range(-1, 22):
        found = as_of(store, NOW + hour * HOUR)
        expected = sum(time <= hour for time in times) - 1
        assert found == (expected if expected >= 0 else None)
    assert as_of(store, NOW + 5 * HOUR - 1) == 1


def test_an_empty_chain_has_no_block_at_any_time(store: Store) -> None:
    assert as_of(store, NOW) is None
    assert units(store, 5) == {}


def test_an_instant_is_found_by_bisection(store: Store) -> None:
    store.config("orders", Seed("orders", "Root"), schema())
    for number in range(100):
        store.config("orders", ConfigEvent("SetInfo", {"n": number}), time=NOW + number)
    with counting(store.database) as tx:
        assert sequence_as_of(tx, "orders", NOW + 77) == 79
    assert tx.statements <= 9


def test_a_missing_block_is_said(store: Store) -> None:
    store.config("orders", Seed("orders", "Root"), schema(), ConfigEvent("SetInfo", {}))
    with store.database.write() as tx:
        tx.change("DELETE FROM mc_block WHERE seq = 1")
    with pytest.raises(StateError, match=r"^V04: block 1 "):
        as_of(store, NOW)


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (None, "V04: block 0 of job .* is stored as 1"),
        (b"{}", "block 1 of job .* cannot be read"),
        (b"[]", "block 1 of job .* cannot be read"),
    ],
)
def test_a_block_that_fits_its_hash_and_is_not_that_block_is_refused(
    store: Store, payload: bytes | None, what: str
) -> None:
    store.config("orders", Seed("orders", "Root"), schema())
    with store.database.write() as tx:
        ((first,),) = tx.rows("SELECT payload FROM mc_block WHERE seq = 0")
        tx.change("DELETE FROM mc_block WHERE seq = 0")
        content = bytes(first) if payload is None else payload
        change = "UPDATE mc_block SET payload = ?, block_hash = ? WHERE seq = 1"
        tx.change(change, content, content_hash(content))
    with store.database.read() as tx, pytest.raises(StateError, match=what):
        read_block_at(tx, "orders", 1)


def test_work_units_end_with_the_state_that_a_reset_gave_up(store: Store) -> None:
    last = commit(store, "r1", outcome("a"))
    store.config("orders", ConfigEvent("ResetState", {"fields": ["sourceState"]}))
    store.append("orders", new_source_state=None, new_watermark=watermark_text(NOW))
    assert list(units(store, last)) == ["[a]"]
    assert units(store, last + 2) == {}


def test_work_units_are_rebuilt_as_they_were_after_each_block(store: Store) -> None:
    first = commit(store, "r1", outcome("a", ok=False), outcome("b"))
    second = commit(store, "r2", outcome("a"), outcome("c"))
    third = commit(store, "r3", outcome("c", ok=False))
    failed = UnitRow("[a]", 0, HOUR, None, "FAILED", 1)
    done = UnitRow("[b]", 0, HOUR, HOUR, "COMMITTED", 1)
    assert units(store, first - 1) == {}
    assert units(store, first) == {"[a]": failed, "[b]": done}
    assert units(store, second) == {
        "[a]": replace(done, signature="[a]", attempts=2),
        "[b]": done,
        "[c]": replace(done, signature="[c]"),
    }
    now = units(store, third)
    assert now["[c]"] == UnitRow("[c]", 0, HOUR, HOUR, "FAILED", 2)
    with store.database.read() as tx:
        rows = tx.rows("SELECT signature, row_hash FROM work_unit WHERE dataset_id = 'orders'")
    assert {name: row.hash for name, row in now.items()} == dict(rows)


def test_work_units_of_another_job_are_not_mixed_in(store: Store) -> None:
    commit(store, "r1", outcome("a"))
    last = commit(store, "r1", outcome("b"), job="returns")
    assert list(units(store, last)) == ["[a]"]
    assert list(units(store, last, "returns")) == ["[b]"]


def test_a_long_chain_is_read_page_by_page(store: Store) -> None:
    last = 0
    for number in range(205):
        last = commit(store, f"r{number}", outcome("a", ok=False))
    with counting(store.database) as tx:
        assert units_as_of(tx, "orders", last)["[a]"].attempts == 205
    assert tx.statements == 2
    assert units(store, last - 100)["[a]"].attempts == 105


def test_a_damaged_block_is_never_added_up(store: Store) -> None:
    commit(store, "r1", outcome("a"))
    last = commit(store, "r2", outcome("b"))
    with store.database.write() as tx:
        tx.change("UPDATE mc_block SET payload = replace(payload, '[a]', '[x]')")
    with pytest.raises(StateError, match=r"^V06: "):
        units(store, last)


def test_deltas_that_do_not_add_up_are_an_error(store: Store) -> None:
    first = commit(store, "r1", outcome("a"))
    last = commit(store, "r2", outcome("b"))
    with store.database.write() as tx:
        tx.change("DELETE FROM mc_block WHERE seq = ?", first)
    with pytest.raises(StateError, match=r"^V22: the deltas "):
        units(store, last)
