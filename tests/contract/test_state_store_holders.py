"""Who holds the lease and whose files are whose, told by every backend."""

from __future__ import annotations

from dil.model.dataset import Commit, OperatorAct
from dil.spi.state_store import StateStore
from tests.contract.state_stores import NOW, commit_of, file, moves, outcome, run_record

LATER = NOW + 10**6


def test_the_holder_of_the_lease_is_told_until_it_is_given_back(store: StateStore) -> None:
    assert store.lease_holder() is None
    lease = store.acquire_lease("r1", lease_s=60)
    assert store.lease_holder() == lease.holder
    store.release_lease(lease)
    assert store.lease_holder() is None


def test_files_of_runs_that_are_recorded_here_are_own(store: StateStore) -> None:
    own, foreign = file("a"), file("b", run="of-another-job")
    assert store.own_files([own, foreign]) == frozenset()

    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(own)))
    store.release_lease(lease)

    assert store.own_files([own, foreign]) == {own.uri}
    assert store.own_files([]) == frozenset()


def test_a_file_stays_own_when_the_row_of_its_run_is_pruned(store: StateStore) -> None:
    old, gone = file("a"), file("never-committed")
    lease = store.acquire_lease("r1", lease_s=60)
    for run in ("r1", "r2"):
        store.begin_run(lease, run_record(run, started=NOW + (run == "r2")))
        store.mark_swept(lease, run)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(old)))
    act = OperatorAct("prune", "", runs_before=NOW + 1)
    store.commit(lease, Commit("p", "c", "dil/orders", (), (), "", LATER, LATER, act=act))
    store.release_lease(lease)

    assert [run.run_id for run in store.runs()] == ["r2"]
    assert store.own_files([old, gone]) == {old.uri}


def test_live_files_are_found_by_the_block_that_brought_them(store: StateStore) -> None:
    """Also where one left and came again, and where a block took files away alone."""
    first, second, third = (file(name, day=day) for day, name in enumerate("abc"))
    assert set(store.live_uris(until=0)) == set()
    lease = store.acquire_lease("r", lease_s=60)
    blocks = [
        store.commit(lease, commit_of(run, outcome(day), moves=moves(*new), removes=gone))
        for day, (run, new, gone) in enumerate(
            [
                ("r1", (first, second), ()),
                ("r2", (), (first,)),
                ("r3", (third,), ()),
                ("r4", (first,), ()),
            ]
        )
    ]

    found = [{*store.live_uris(until=block)} for block in blocks]

    old = {second.uri}
    assert found == [old, old, {*old, third.uri}, {*old, third.uri, first.uri}]
    assert set(store.live_uris()) == found[-1]
    assert set(store.live_uris(until=0)) == set(), "the seed brought none"
    assert found == [{*StateStore.live_uris(store, until=block)} for block in blocks]
