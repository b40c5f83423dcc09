"""What every state store keeps to: leases, runs, intents, shape, crashes. One suite over all."""

import os
import signal
import socket
from dataclasses import replace

import pytest

from dil.errors import CommitConflictError, LeaseHeldError, LeaseLostError, StateError
from dil.model.dataset import OPEN_STATUSES, Intent
from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from tests.contract.state_stores import (
    DAY,
    NOW,
    START,
    Place,
    child,
    commit_of,
    file,
    moves,
    outcome,
    run_record,
)

# An empty store


def test_reading_an_empty_store_finds_nothing_and_creates_nothing(
    place: Place,
) -> None:
    with place.open() as store:
        history = store.history()
        assert history.is_empty()
        assert not history.has_succeeded()
        assert history.coverage("u.{}") is None
        assert history.records("u.{}", 0, NOW) == {}
        assert history.open_records("u.{}") == {}
        assert store.head() is None
        assert list(store.blocks()) == []
        assert list(store.unit_states()) == []
        assert store.pending_intent() is None
        assert store.unfinished_runs() == []
        assert store.last_rows() is None
        assert store.recorded_shape() is None
    assert place.traces() == []


def test_jobs_of_one_place_do_not_see_each_other(place: Place) -> None:
    with place.open("a") as one, place.open("b") as other:
        one.commit(one.acquire_lease("r1", lease_s=60), commit_of("r1", outcome(0)))
        assert other.head() is None
        assert other.history().is_empty()
        assert other.acquire_lease("r1", lease_s=60).token == 1


# Lease


def test_a_held_lease_is_refused_with_the_holder_and_the_time(
    store: StateStore, place: Place
) -> None:
    store.acquire_lease("run-1", lease_s=60)
    with place.open() as other, pytest.raises(LeaseHeldError) as caught:
        other.acquire_lease("run-2", lease_s=60)
    assert "run-1" in caught.value.message
    assert str(os.getpid()) in caught.value.message
    assert "2025-02-04T00:00:00.000Z" in caught.value.message
    assert "2025-02-04T00:01:00.000Z" not in caught.value.fix  # it is seen to live


def test_when_the_lease_of_another_host_ends_is_told(
    store: StateStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        there.setattr(socket, "gethostname", lambda: "elsewhere")
        store.acquire_lease("run-1", lease_s=60)
    with place.open() as other, pytest.raises(LeaseHeldError) as caught:
        other.acquire_lease("run-2", lease_s=60)
    assert "elsewhere" in caught.value.message
    assert "2025-02-04T00:01:00.000Z" in caught.value.fix


def test_a_released_lease_is_free_and_its_next_token_is_larger(store: StateStore) -> None:
    first = store.acquire_lease("run-1", lease_s=60)
    store.release_lease(first)
    second = store.acquire_lease("run-2", lease_s=60)
    assert second.token > first.token
    assert second.holder.run_id == "run-2"


def test_a_lease_expires_after_its_last_heartbeat(store: StateStore, place: Place) -> None:
    lease = store.acquire_lease("run-1", lease_s=60)
    place.clock.now += 50_000
    store.heartbeat(lease)
    place.clock.now += 59_999
    with pytest.raises(LeaseHeldError):
        store.acquire_lease("run-2", lease_s=60)
    place.clock.now += 1
    assert store.acquire_lease("run-2", lease_s=60).token == lease.token + 1


def test_every_change_under_an_old_token_is_refused(store: StateStore, place: Place) -> None:
    old = store.acquire_lease("run-1", lease_s=60)
    place.clock.now += 60_000
    store.acquire_lease("run-2", lease_s=60)
    intent = Intent(commit_of("run-1", outcome(0)), old.token, "/data", 0)
    for act in (
        lambda: store.heartbeat(old),
        lambda: store.begin_run(old, run_record("run-1")),
        lambda: store.end_run(old, "run-1", "success", rows=0, files=0),
        lambda: store.mark_swept(old, "run-1"),
        lambda: store.record_intent(old, intent),
        lambda: store.commit(old, intent.commit),
        lambda: store.record_shape(old, "daily"),
    ):
        with pytest.raises(LeaseLostError):
            act()
    assert store.head() is None


def test_a_lease_that_a_failover_lost_is_no_lease_of_the_next_run_with_its_token(
    store: StateStore,
) -> None:
    """A replica that lagged does not know ``lost``, and so gives its token to the next run."""
    own = store.acquire_lease("run-2", lease_s=60)
    lost = replace(own, holder=replace(own.holder, run_id="run-1"))
    for act in (
        lambda: store.heartbeat(lost),
        lambda: store.begin_run(lost, run_record("run-1")),
        lambda: store.commit(lost, commit_of("run-1", outcome(0))),
    ):
        with pytest.raises(LeaseLostError):
            act()
    store.release_lease(lost)
    assert store.lease_holder() == own.holder


def test_releasing_a_lost_lease_leaves_the_new_holder_alone(
    store: StateStore, place: Place
) -> None:
    old = store.acquire_lease("run-1", lease_s=60)
    place.clock.now += 60_000
    new = store.acquire_lease("run-2", lease_s=60)
    store.release_lease(old)
    store.heartbeat(new)
    with pytest.raises(LeaseHeldError):
        store.acquire_lease("run-3", lease_s=60)


def test_a_lease_of_another_job_changes_nothing(store: StateStore, place: Place) -> None:
    store.acquire_lease("r1", lease_s=60)
    with place.open("other") as other, pytest.raises(LeaseLostError):
        store.commit(other.acquire_lease("r1", lease_s=60), commit_of("r1", outcome(0)))


def test_a_heartbeat_after_release_is_refused(store: StateStore) -> None:
    lease = store.acquire_lease("run-1", lease_s=60)
    store.release_lease(lease)
    with pytest.raises(LeaseLostError):
        store.heartbeat(lease)


@pytest.mark.long_where(place=["fs", "mysql"])
def test_the_lease_of_a_killed_process_is_taken_over_at_once(
    store: StateStore, place: Place
) -> None:
    holder = child(place.spec, 'store.acquire_lease("r0", lease_s=3600); print("held", flush=True)'
                          "\nsys.stdin.read()")  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LeaseHeldError):
            store.acquire_lease("r1", lease_s=3600)
        holder.send_signal(signal.SIGKILL)
        # Not yet waited for: even a zombie no longer holds a lease.
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        assert store.acquire_lease("r1", lease_s=3600).token == 2


# Runs


def test_runs_are_unfinished_until_swept_oldest_first(store: StateStore) -> None:
    lease = store.acquire_lease("r2", lease_s=60)
    store.begin_run(lease, run_record("r2", started=NOW + 1))
    store.begin_run(lease, run_record("r1"))
    store.end_run(lease, "r2", "failed", rows=5, files=1)
    assert store.unfinished_runs() == [
        run_record("r1"),
        run_record("r2", started=NOW + 1, status="failed", rows=5, files=1),
    ]
    store.mark_swept(lease, "r1")
    assert [run.run_id for run in store.unfinished_runs()] == ["r2"]


def test_a_run_that_crashed_after_its_commit_is_not_recovered_again(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.begin_run(lease, run_record("r1"))
    store.begin_run(lease, run_record("r2"))
    store.commit(lease, commit_of("r1", outcome(0)))
    store.commit(lease, commit_of("r2", outcome(1), outcome(2, ok=False)))
    assert {run.run_id: run.status for run in store.unfinished_runs()} == {
        "r1": "success",
        "r2": "partial",
    }


@pytest.mark.parametrize("status", OPEN_STATUSES)
def test_a_commit_supersedes_what_earlier_runs_staged(store: StateStore, status: str) -> None:
    """Until it is swept, a later run could take it for unpublished rows, and publish it again."""
    lease = store.acquire_lease("r1", lease_s=60)
    for run in ("r1", "r2"):
        store.begin_run(lease, run_record(run, status=status))
    assert [run.is_open for run in store.unfinished_runs()] == [True, True]

    store.commit(lease, commit_of("r2", outcome(0)))

    assert [run.is_open for run in store.unfinished_runs()] == [False, False]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_run_that_stops_after_its_commit_stays_published(store: StateStore, status: str) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.begin_run(lease, run_record("r1"))
    store.commit(lease, commit_of("r1", outcome(0), outcome(1, ok=False)))
    store.end_run(lease, "r1", status, rows=0, files=0)
    assert [run.committed for run in store.unfinished_runs()] == [True]


def test_a_failure_is_a_record_and_becomes_no_success_of_the_job(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0, ok=False)))
    assert not store.history().is_empty()
    assert not store.history().has_succeeded()

    store.commit(lease, commit_of("r2", outcome(0)))
    store.commit(lease, commit_of("r3", outcome(0, ok=False)))
    assert store.history().has_succeeded()


def test_ending_a_run_that_was_never_begun_is_an_error(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    with pytest.raises(StateError):
        store.end_run(lease, "r1", "success", rows=0, files=0)


def test_a_run_that_is_begun_again_starts_over(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.begin_run(lease, run_record("r1"))
    again = run_record("r1", policy="successful", staging_dir="/elsewhere")
    store.begin_run(lease, again)
    assert store.unfinished_runs() == [again]


# Intent


def test_an_intent_survives_exactly_and_is_dropped_by_its_commit(
    store: StateStore, place: Place
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    commit = commit_of(
        "r1",
        outcome(0),
        replace(outcome(1, ok=False), timelabel="20240102000000", error="503 «x»"),
        moves=moves(file("a.avro")),
        removes=(file("old.avro"),),
        schema='{"type":"struct"}',
        left_low=START,
    )
    intent = Intent(commit, lease.token, "/data/orders", 7)
    store.record_intent(lease, intent)
    with place.open() as other:
        assert other.pending_intent() == intent
        other.commit(lease, commit)
        assert other.pending_intent() is None


def test_recording_the_same_intent_again_changes_nothing(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    intent = Intent(commit_of("r1", outcome(0)), lease.token, "/data", 0)
    store.record_intent(lease, intent)
    store.record_intent(lease, intent)
    assert store.pending_intent() == intent


def test_a_second_intent_or_a_commit_of_another_run_waits_for_the_first(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    intent = Intent(commit_of("r1", outcome(0)), lease.token, "/data", 0)
    store.record_intent(lease, intent)
    with pytest.raises(StateError):
        store.record_intent(lease, replace(intent, commit=commit_of("r2", outcome(1))))
    with pytest.raises(StateError):
        store.commit(lease, commit_of("r2", outcome(1)))
    assert store.pending_intent() == intent


def test_a_run_that_is_committed_has_no_intent_any_more(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    commit = commit_of("r1", outcome(0))
    store.commit(lease, commit)
    with pytest.raises(CommitConflictError):
        store.record_intent(lease, Intent(commit, lease.token, "/data", 0))
    assert store.pending_intent() is None


def test_an_intent_takes_the_place_of_one_of_the_same_run_alone(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    whole = Intent(commit_of("r1", outcome(0), outcome(1)), lease.token, "/data", 0)
    rest = replace(whole, commit=commit_of("r1", outcome(0)))
    with pytest.raises(StateError, match="no publish to finish"):
        store.replace_intent(lease, rest)
    store.record_intent(lease, whole)
    with pytest.raises(StateError, match="no publish to finish"):
        store.replace_intent(lease, replace(rest, commit=commit_of("r2", outcome(0))))
    assert store.pending_intent() == whole
    store.replace_intent(lease, rest)
    assert store.pending_intent() == rest


def test_an_impossible_success_is_refused_before_the_intent(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    bad = replace(outcome(3), high=START + 3 * DAY)
    with pytest.raises(StateError):
        store.record_intent(lease, Intent(commit_of("r1", bad), lease.token, "/data", 0))
    assert store.pending_intent() is None


# Shape


def test_the_shape_is_kept_and_a_new_one_uncovers_everything(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.record_shape(lease, "2024-01-01|UTC|weekly")
    store.commit(lease, commit_of("r1", outcome(0, days=7), outcome(7, days=7)))
    store.record_shape(lease, "2024-01-01|UTC|weekly")
    weekly = store.history().coverage("u.{}")
    assert weekly is not None
    assert weekly.covered_to == START + 14 * DAY
    store.record_shape(lease, "2024-01-01|UTC|daily")
    assert store.recorded_shape() == "2024-01-01|UTC|daily"
    uncovered = store.history().coverage("u.{}")
    assert uncovered is not None
    assert uncovered.covered_from == uncovered.covered_to
    assert uncovered.max_high == START + 14 * DAY
    store.commit(lease, commit_of("r2", outcome(14)))
    daily = store.history().coverage("u.{}")
    assert daily is not None
    assert (daily.covered_from, daily.covered_to) == (START + 14 * DAY, START + 15 * DAY)


@pytest.mark.parametrize("ok", [True, False])
def test_a_work_unit_that_is_read_again_to_an_earlier_end_stays_covered(
    store: StateStore, ok: bool
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    ends = ((3, True), (2, ok), (4, True))
    for number, (days, is_read) in enumerate(ends):
        store.commit(lease, commit_of(f"r{number}", outcome(0, days=days, ok=is_read)))
        assert verify_chain(store).problems == ()
    coverage = store.history().coverage("u.{}")
    assert coverage is not None
    assert (coverage.covered_from, coverage.covered_to) == (START, START + 4 * DAY)


def test_a_failure_owes_only_what_it_failed_to_read(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    ends = (3, True), (2, False), (2, True)
    for number, (days, is_read) in enumerate(ends):
        store.commit(lease, commit_of(f"r{number}", outcome(0, days=days, ok=is_read)))
    assert [(state.status, state.high) for state in store.unit_states()] == [
        ("COMMITTED", START + 3 * DAY)
    ]
    assert verify_chain(store).problems == ()


def test_a_skipped_work_unit_that_fails_is_covered_only_when_it_is_read(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    missed = outcome(1, ok=False, attempts=0)
    store.commit(lease, commit_of("r1", outcome(0), outcome(2), skipped=(missed,)))
    covered = []
    for number, is_read in enumerate((False, True)):
        store.commit(lease, commit_of(f"b{number}", outcome(1, ok=is_read)))
        coverage = store.history().coverage("u.{}")
        assert coverage is not None
        covered.append((coverage.covered_to - coverage.covered_from) // DAY)
        assert verify_chain(store).problems == ()
    assert covered == [1, 3]


def test_a_partition_inside_another_one_uncovers_what_was_read_before(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0, days=7), outcome(0, days=7, unit="b")))
    store.commit(lease, commit_of("r2", outcome(3)))
    assert verify_chain(store).problems == ()
    coverage = store.history().coverage("u.{}")
    assert coverage is not None
    assert (coverage.covered_from, coverage.covered_to) == (START + 3 * DAY, START + 4 * DAY)


def test_a_failure_does_not_carry_an_old_success_into_a_new_shape(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.record_shape(lease, "weekly")
    store.commit(lease, commit_of("r1", outcome(0, days=7)))
    store.record_shape(lease, "other")
    store.commit(lease, commit_of("r2", outcome(0, days=7, ok=False), outcome(7)))
    coverage = store.history().coverage("u.{}")
    assert coverage is not None
    assert (coverage.covered_from, coverage.covered_to) == (START + 7 * DAY, START + 8 * DAY)


# Crash safety


@pytest.mark.long_where(place=["fs", "mysql"])
def test_a_store_whose_writer_is_killed_again_and_again_stays_consistent(
    store: StateStore, place: Place
) -> None:
    body = """
        import itertools

        def next_number(store):
            head = store.head()
            return 0 if head is None else head["sequenceNumber"] + 1

        first = int(sys.argv[1]) if len(sys.argv) > 1 else next_number(store)
        lease = store.acquire_lease("r", lease_s=3600)
        print("started", flush=True)
        for number in itertools.count(first):
            day = number % 50
            commit = commit_of(f"r{number}", outcome(day), outcome(day, unit="b", ok=day % 3 > 0),
                               moves=moves(file(f"f{number}", day=day)), schema="s")
            store.record_intent(lease, Intent(commit, lease.token, "/data", number))
            store.commit(lease, commit)
            print(f"r{number}", flush=True)
    """
    acknowledged: list[str] = []
    for wanted in (3, 17, 31, 8):
        with child(place.spec, body) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline().strip() for _ in range(wanted)]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.read().split("\n")[:-1]
        acknowledged += [line.strip() for line in lines if line.startswith("r")]
        lease = store.acquire_lease("recovery", lease_s=60)
        intent = store.pending_intent()
        if intent is not None:
            store.commit(lease, intent.commit)
        store.release_lease(lease)
    report = verify_chain(store)
    assert report.problems == ()
    added = [
        part["path"]
        for block in store.blocks()
        if (block["event"].get("newData") or {}).get("parts")
        for part in block["event"]["newData"]["parts"]
    ]
    assert len(set(added)) == len(added)
    assert set(added) >= {f"file:///data/f{run[1:]}" for run in acknowledged}
