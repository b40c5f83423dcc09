"""The thread that keeps a lease: what ends it, and that it ends before the release."""

from __future__ import annotations

import threading

import pytest

from dil.errors import DilError, LeaseLostError, StateError
from dil.model.dataset import Lease
from dil.state import LeaseKeeper
from dil.state.databases import outage
from dil.state.runs.processes import this_process

LEASE = Lease("orders", 1, this_process("r1", 0))


class Store:
    """A store whose heartbeats fail in turn; ``done`` is set by the heartbeat after the last."""

    def __init__(self, *failures: DilError, release: DilError | None = None) -> None:
        self.failures = list(failures)
        self.release = release
        self.steps: list[str] = []
        self.done = threading.Event()

    def heartbeat(self, lease: Lease) -> None:
        assert lease == LEASE
        assert not outage._is_patient.get(), "a heartbeat waits for no server"
        self.steps.append("heartbeat")
        if self.failures:
            raise self.failures.pop(0)
        self.done.set()

    def release_lease(self, lease: Lease) -> None:
        assert lease == LEASE
        assert not outage._is_patient.get(), "a release waits for no server"
        self.steps.append("release")
        if self.release is not None:
            raise self.release


def keeper(store: Store) -> LeaseKeeper:
    found = LeaseKeeper(store, LEASE, 60)  # type: ignore[arg-type]
    assert found._pause_s == 15, "several heartbeats may fail before the lease expires"
    found._pause_s = 0.001
    return found


def test_a_heartbeat_that_failed_is_tried_again() -> None:
    store = Store(StateError("away"), StateError("away"))
    with keeper(store) as kept:
        assert store.done.wait(20)
    assert not kept.lost
    assert store.steps[:3] == ["heartbeat"] * 3
    assert store.steps[-1] == "release"


def test_a_lost_lease_is_noted_and_no_heartbeat_follows() -> None:
    store = Store(LeaseLostError("r2 took it over"))
    with keeper(store) as kept:
        kept._thread.join(20)
        assert kept.lost
    assert store.steps == ["heartbeat", "release"]


@pytest.mark.parametrize("error", [StateError("away"), LeaseLostError("gone")])
def test_a_release_that_fails_ends_no_run(error: DilError) -> None:
    store = Store(release=error)
    with keeper(store):
        assert store.done.wait(20)
    assert store.steps[-1] == "release"


def test_a_signal_during_the_release_does_not_keep_the_lease() -> None:
    class Interrupted(Store):
        """Its first release is stopped by a signal."""

        def release_lease(self, lease: Lease) -> None:
            super().release_lease(lease)
            if self.steps.count("release") == 1:
                raise KeyboardInterrupt

    store = Interrupted()
    with pytest.raises(KeyboardInterrupt), keeper(store):
        pass
    assert store.steps[-2:] == ["release", "release"]


@pytest.mark.parametrize("is_started", [False, True])
def test_a_signal_during_the_start_of_heartbeats_does_not_keep_the_lease(
    is_started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if is_started:
            start(thread)
        raise KeyboardInterrupt

    store = Store()
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), keeper(store):
        pass
    assert store.steps[-1] == "release"


def test_no_heartbeat_follows_the_release() -> None:
    begun = threading.Event()

    class Slow(Store):
        """Its heartbeat ends after the block."""

        def heartbeat(self, lease: Lease) -> None:
            begun.set()
            assert kept._over.wait(20)
            super().heartbeat(lease)

        def release_lease(self, lease: Lease) -> None:
            assert not kept._thread.is_alive()
            super().release_lease(lease)

    store = Slow()
    kept = keeper(store)
    with kept:
        assert begun.wait(20)
    assert store.steps == ["heartbeat", "release"]
