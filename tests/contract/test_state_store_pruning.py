"""Rows of old runs can go, on every backend; that of the newest run and those in use stay."""

from __future__ import annotations

from dil.model.dataset import Commit, OperatorAct, RunRecord
from dil.spi.state_store import StateStore
from tests.contract.state_stores import NOW

LATER = NOW + 10**6


def begin(store: StateStore, *names: str) -> None:
    """Record runs that began one after the other, a millisecond apart."""
    lease = store.acquire_lease("r", lease_s=60)
    for number, name in enumerate(names):
        began = NOW + number
        record = RunRecord(name, "orders", began, NOW, "full", "d", f"/s/{name}", "running")
        store.begin_run(lease, record)
    store.release_lease(lease)


def sweep(store: StateStore, *names: str) -> None:
    lease = store.acquire_lease("r", lease_s=60)
    for name in names:
        store.mark_swept(lease, name)
    store.release_lease(lease)


def prune(store: StateStore, before: int) -> list[str]:
    """Drop the rows of runs that began before an instant; return which ones are left."""
    lease = store.acquire_lease("prune", lease_s=60)
    act = OperatorAct("prune", "", runs_before=before)
    commit = Commit("prune", "c", "dil/orders", (), (), "", LATER, LATER, act=act)
    assert store.commit(lease, commit) is None
    store.release_lease(lease)
    return [run.run_id for run in store.runs()]


def test_the_newest_run_and_runs_with_staging_keep_their_rows(store: StateStore) -> None:
    begin(store, "a", "b", "c", "d")
    sweep(store, "a", "c", "d")

    assert prune(store, LATER) == ["d", "b"]
    assert prune(store, LATER) == ["d", "b"]


def test_runs_that_began_later_keep_their_rows(store: StateStore) -> None:
    begin(store, "a", "b", "c")
    sweep(store, "a", "b", "c")

    assert prune(store, NOW + 1) == ["c", "b"]


def test_a_job_without_runs_has_nothing_to_prune(store: StateStore) -> None:
    assert prune(store, LATER) == []


def test_documents_of_runs_without_a_row_go_with_the_rest(store: StateStore) -> None:
    begin(store, "a", "b")
    lease = store.acquire_lease("r", lease_s=60)
    for name in ("a", "b", "without a row"):
        store.keep_run_details(lease, name, {"report": {"run": name}})
    store.release_lease(lease)

    prune(store, NOW)
    assert store.run_detail("without a row", "report") is None
    assert store.run_detail("a", "report") == {"run": "a"}
    assert store.run_detail("b", "report") == {"run": "b"}


def test_documents_of_a_kind_come_newest_run_first_and_go_with_its_row(store: StateStore) -> None:
    begin(store, "a", "b", "c")
    lease = store.acquire_lease("r", lease_s=60)
    for name in ("b", "c", "a", "without a row"):
        store.keep_run_details(lease, name, {"outcome": {"run": name}, "report": {}})
    store.keep_run_details(lease, "b", {"outcome": {"run": "b again"}})
    store.release_lease(lease)

    found = [(run_id, document["run"]) for run_id, document in store.run_details("outcome")]
    assert found == [("c", "c"), ("b", "b again"), ("a", "a")]
    assert [run_id for run_id, _ in store.run_details("report", limit=2)] == ["c", "b"]
    assert list(store.run_details("other")) == []
    sweep(store, "a", "b", "c")
    prune(store, LATER)
    assert [run_id for run_id, _ in store.run_details("outcome")] == ["c"]
