"""Each store says which stretches of time were read, as its records and failures do."""

from dataclasses import replace

from dil.model.dataset import Commit
from dil.model.history import UnitStretches
from dil.model.interval import Interval
from dil.spi.state_store import StateStore
from dil.state.amendments.operations import Selection, forget
from tests.contract.state_stores import DAY, NOW, START, commit_of, outcome


def days(low: int, high: int) -> Interval:
    return Interval(START + low * DAY, START + high * DAY)


def commit(store: StateStore, run: str, *outcomes: object, **changes: object) -> None:
    lease = store.acquire_lease(run, lease_s=60)
    store.commit(lease, commit_of(run, *outcomes, **changes))
    store.release_lease(lease)


def by_key(store: StateStore) -> dict[str, UnitStretches]:
    return {unit.unit_key: unit for unit in store.unit_stretches()}


def test_a_job_without_records_has_no_stretches(store: StateStore) -> None:
    assert list(store.unit_stretches()) == []


def test_neighbours_are_joined_and_holes_stay(store: StateStore) -> None:
    commit(store, "r1", *(outcome(each) for each in (3, 0, 1, 6)), outcome(1, unit='{"id":"é/x"}'))

    found = by_key(store)

    assert found.keys() == {"u.{}", 'u.{"id":"é/x"}'}
    assert found["u.{}"] == UnitStretches(
        "u.{}", read=[days(0, 2), days(3, 4), days(6, 7)], newest=days(6, 7),
        failed=[], skipped=[],
    )  # fmt: skip


def test_a_failure_keeps_what_was_read_before(store: StateStore) -> None:
    half = outcome(2)
    reached = half.low + DAY // 2
    commit(store, "r1", replace(half, high=reached, expected_high=reached), outcome(1))
    commit(store, "r2", replace(half, high=None, error="boom"), outcome(4, ok=False))
    skipped = replace(outcome(5, ok=False), attempts=0, error="")
    commit(store, "r3", outcome(7), skipped=(skipped,))

    (unit,) = store.unit_stretches()

    assert unit.read == [Interval(START + DAY, reached), days(7, 8)]
    assert unit.failed == [Interval(reached, START + 3 * DAY), days(4, 5)]
    assert unit.skipped == [days(5, 6)]
    assert unit.newest == days(7, 8)


def test_what_failed_since_is_no_newest_success(store: StateStore) -> None:
    commit(store, "r1", outcome(0), outcome(1))
    commit(store, "r2", outcome(1, ok=False))
    (unit,) = store.unit_stretches()
    assert (unit.read, unit.failed, unit.newest) == ([days(0, 2)], [], None)


def test_what_was_forgotten_is_no_record(store: StateStore) -> None:
    commit(store, "r1", outcome(0), outcome(1))
    forgotten = forget(store.unit_entries(), Selection(low=START + DAY)).act("", {})
    act = Commit("forget-1", "c1", "dil/orders", (), (), "", NOW, NOW, act=forgotten)
    store.commit(store.acquire_lease("forget-1", lease_s=60), act)
    (unit,) = store.unit_stretches()
    assert unit.read == [days(0, 1)]
