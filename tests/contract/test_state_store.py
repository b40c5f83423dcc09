"""What every state store keeps to. One suite over all backends, by the factories below."""

import hashlib
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dil.errors import (
    CommitConflictError,
    LeaseHeldError,
    LeaseLostError,
    StateError,
)
from dil.model.dataset import Commit, Intent, Move, PublishedFile, RunRecord, WorkUnitOutcome
from dil.model.history import Coverage, UnitRecord
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore, UnitState
from dil.state import open_store
from dil.state.verification import verify_chain

DAY = 86_400_000
START = 1_704_067_200_000  # 2024-01-01T00:00:00Z
NOW = START + 400 * DAY


@dataclass
class Clock:
    now: int = NOW

    def __call__(self) -> int:
        return self.now


@dataclass
class Place:
    """Where a backend keeps state; stores opened here see each other's commits."""

    spec: StateSpec
    clock: Clock = field(default_factory=Clock)

    def open(self, job: str = "orders") -> StateStore:
        return open_store(self.spec, job, clock=self.clock)


def sqlite_place(folder: Path) -> Place:
    return Place(StateSpec("sqlite", str(folder / "state")))


def local_fs_place(folder: Path) -> Place:
    return Place(StateSpec("fs", (folder / "state").as_uri()))


FACTORIES: dict[str, Callable[[Path], Place]] = {
    "sqlite": sqlite_place,
    "fs": local_fs_place,
}


@pytest.fixture(params=FACTORIES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return FACTORIES[request.param](tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[StateStore]:
    with place.open() as opened:
        yield opened


def signature(day: int, unit: str = "{}") -> str:
    return f"[watermark.dt.{START + day * DAY}, watermark.u.{unit}]"


def outcome(
    day: int, *, unit: str = "{}", ok: bool = True, attempts: int = 1, days: int = 1
) -> WorkUnitOutcome:
    low = START + day * DAY
    high = low + days * DAY
    return WorkUnitOutcome(
        signature=signature(day, unit),
        unit_key=f"u.{unit}",
        low=low,
        expected_high=high,
        high=high if ok else None,
        attempts=attempts,
        error="" if ok else "boom",
    )


def file(name: str, *, day: int = 0, rows: int = 10, run: str = "r1") -> PublishedFile:
    return PublishedFile(
        uri=f"file:///data/{name}",
        signature=signature(day),
        rows=rows,
        bytes=rows * 7,
        sha256=hashlib.sha256(name.encode()).hexdigest(),
        run_id=run,
    )


def commit_of(run: str, *outcomes: WorkUnitOutcome, **changes: object) -> Commit:
    base = Commit(
        run_id=run,
        config_digest="c1",
        source_name="dil/orders",
        moves=(),
        removes=(),
        outcomes=outcomes,
        schema="",
        system_time=NOW,
        horizon=NOW,
    )
    return replace(base, **changes)


def moves(*files: PublishedFile) -> tuple[Move, ...]:
    return tuple(Move(f"{each.uri}.staged", each) for each in files)


def run_record(run: str, **changes: object) -> RunRecord:
    record = RunRecord(run, "orders", NOW, NOW, "full", "c1", "/staging/" + run, "running")
    return replace(record, **changes)


# An empty store


def test_reading_an_empty_store_finds_nothing_and_creates_nothing(
    place: Place, tmp_path: Path
) -> None:
    with place.open() as store:
        history = store.history()
        assert history.is_empty()
        assert history.coverage("u.{}") is None
        assert history.records("u.{}", 0, NOW) == {}
        assert history.open_records("u.{}") == {}
        assert store.head() is None
        assert list(store.blocks()) == []
        assert list(store.unit_states()) == []
        assert store.live_files() == []
        assert store.pending_intent() is None
        assert store.unfinished_runs() == []
        assert store.last_rows() is None
        assert store.recorded_shape() is None
        assert store.next_sequence() == 0
    assert list(tmp_path.iterdir()) == []


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


def child(place: Place, body: str) -> subprocess.Popen[str]:
    """Start a real process that has ``store`` open and runs ``body``."""
    program = f"""
import sys
from tests.contract.test_state_store import *
place = Place(StateSpec({place.spec.kind!r}, {place.spec.directory!r}))
store = place.open()
{textwrap.dedent(body)}
"""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_the_lease_of_a_killed_process_is_taken_over_at_once(
    store: StateStore, place: Place
) -> None:
    holder = child(place, 'store.acquire_lease("r0", lease_s=3600); print("held", flush=True)'
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


def test_ending_a_run_that_was_never_begun_is_an_error(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    with pytest.raises(StateError):
        store.end_run(lease, "r1", "success", rows=0, files=0)


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
    intent = Intent(commit, lease.token, "/data/orders", store.next_sequence())
    store.record_intent(lease, intent)
    with place.open() as other:
        assert other.pending_intent() == intent
        other.commit(lease, commit)
        assert other.pending_intent() is None
    assert store.next_sequence() > intent.sequence


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


def test_an_impossible_success_is_refused_before_the_intent(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    bad = replace(outcome(3), high=START + 3 * DAY)
    with pytest.raises(StateError):
        store.record_intent(lease, Intent(commit_of("r1", bad), lease.token, "/data", 0))
    assert store.pending_intent() is None


# Commit


def test_the_first_commit_writes_seed_config_schema_and_data(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    block = store.commit(
        lease,
        commit_of("r1", outcome(0), moves=moves(file("a"), file("b", rows=5)), schema="s1"),
    )
    kinds = [each["event"]["kind"] for each in store.blocks()]
    assert kinds == ["AddData", "SetDataSchema", "SetPollingSource", "Seed"]
    assert block == store.head()
    assert block["sequenceNumber"] == 3
    event = block["event"]
    assert event["newWatermark"] == "2024-01-02T00:00:00.000Z"
    assert event["prevOffset"] is None
    assert event["prevCheckpoint"] is None
    assert event["newCheckpoint"] is None
    new_data = event["newData"]
    assert new_data["logicalHash"] is None
    assert new_data["offsetInterval"] == {"start": 0, "end": 14}
    assert new_data["size"] == 105
    assert "removes" not in new_data
    assert new_data["parts"] == [
        {
            "path": "file:///data/a",
            "rows": 10,
            "start": 0,
            "end": 9,
            "size": 70,
            "physicalHash": "f1220" + file("a").sha256,
        },
        {
            "path": "file:///data/b",
            "rows": 5,
            "start": 10,
            "end": 14,
            "size": 35,
            "physicalHash": "f1220" + file("b").sha256,
        },
    ]
    assert store.next_sequence() == 4
    assert store.last_rows() == 15


def test_config_and_schema_blocks_are_written_only_when_they_change(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)

    def kinds_after(run: str, day: int, digest: str, schema: str) -> list[str]:
        before = store.next_sequence()
        store.commit(
            lease,
            commit_of(
                run,
                outcome(day),
                moves=moves(file(run)),
                config_digest=digest,
                schema=schema,
            ),
        )
        new = store.next_sequence() - before
        return [b["event"]["kind"] for b in itertools.islice(store.blocks(), new)]

    kinds_after("r1", 0, "c1", "s1")
    assert kinds_after("r2", 1, "c1", "s1") == ["AddData"]
    assert kinds_after("r3", 2, "c2", "s1") == ["AddData", "SetPollingSource"]
    assert kinds_after("r4", 3, "c2", "s2") == ["AddData", "SetDataSchema"]
    assert verify_chain(store).problems == ()


def test_offsets_watermark_and_state_carry_over_commits_without_data(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a")), schema="s"))
    failed = store.commit(lease, commit_of("r2", outcome(1, ok=False)))
    assert failed["event"]["newData"] is None
    assert failed["event"]["prevOffset"] == 9
    assert failed["event"]["newWatermark"] == "2024-01-02T00:00:00.000Z"
    again = store.commit(lease, commit_of("r3", outcome(1), moves=moves(file("b")), schema="s"))
    assert again["event"]["prevOffset"] == 9
    assert again["event"]["newData"]["offsetInterval"] == {"start": 10, "end": 19}
    assert again["event"]["newWatermark"] == "2024-01-03T00:00:00.000Z"


def test_source_state_tells_counts_marks_and_the_change_alone(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", *(outcome(day) for day in range(5))))
    block = store.commit(lease, commit_of("r2", outcome(5, ok=False, attempts=3)))
    state = block["event"]["newSourceState"]
    assert state["sourceName"] == "dil/orders"
    assert state["kind"] == "dil/work-units+v1"
    value = state["value"]
    assert value["stateVersion"] == 2
    assert value["counts"] == {"COMMITTED": 5, "FAILED": 1}
    assert value["maxHigh"] == START + 5 * DAY
    assert value["frontier"] == START + 5 * DAY
    assert value["delta"] == [
        {
            "sig": signature(5),
            "low": START + 5 * DAY,
            "expectedHigh": START + 6 * DAY,
            "high": None,
            "status": "FAILED",
            "attempts": 3,
            "cursor": None,
        }
    ]


def test_committing_a_run_twice_changes_nothing(store: StateStore, place: Place) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    commit = commit_of("r1", outcome(0), moves=moves(file("a")), schema="s")
    first = store.commit(lease, commit)
    with place.open() as other:
        assert other.commit(lease, commit) == first
    assert store.commit(lease, commit_of("r1", outcome(7))) == first
    assert store.head() == first
    assert list(store.unit_states()) == [
        UnitState(signature(0), START, START + DAY, "COMMITTED", 1)
    ]


def test_a_commit_that_changes_nothing_writes_no_block_but_drops_the_intent(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    head = store.commit(lease, commit_of("r1", outcome(0)))
    nothing = commit_of("r2", config_digest="other")
    store.record_intent(lease, Intent(nothing, lease.token, "/data", store.next_sequence()))
    assert store.commit(lease, nothing) is None
    assert store.pending_intent() is None
    assert store.head() == head


def test_a_commit_planned_on_an_older_head_is_a_conflict(store: StateStore, place: Place) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.history()
    with place.open() as other:
        other.commit(lease, commit_of("r1", outcome(0)))
    with pytest.raises(CommitConflictError):
        store.commit(lease, commit_of("r2", outcome(1)))
    with pytest.raises(CommitConflictError):
        store.record_intent(lease, Intent(commit_of("r2", outcome(1)), lease.token, "/data", 5))
    assert [state.signature for state in store.unit_states()] == [signature(0)]
    store.history()
    assert store.commit(lease, commit_of("r2", outcome(1))) is not None


def test_a_recorded_intent_is_committed_whatever_the_head_is(
    store: StateStore, place: Place
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.history()
    commit = commit_of("r1", outcome(0), moves=moves(file("a")), schema="s")
    store.record_intent(lease, Intent(commit, lease.token, "/data", 0))
    with place.open() as other:
        other.history()
        assert other.commit(lease, commit) is not None
    assert store.commit(lease, commit) == store.head()


def test_removed_files_are_named_with_their_offsets_and_no_longer_live(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    one, two, three = file("a", day=0), file("b", day=1, rows=3), file("c", day=1, run="r2")
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(one, two), schema="s"))
    block = store.commit(
        lease, commit_of("r2", outcome(1), moves=moves(three), removes=(two,), schema="s")
    )
    assert block["event"]["newData"]["removes"] == [
        {
            "path": two.uri,
            "rows": 3,
            "start": 10,
            "end": 12,
            "size": 21,
            "physicalHash": "f1220" + two.sha256,
        }
    ]
    assert store.live_files() == [one, three]
    assert store.live_files([signature(1)]) == [three]
    assert store.live_files([signature(1), signature(0), signature(1)]) == [three, one]
    assert store.live_files([signature(9)]) == []


def test_a_replace_that_leaves_no_row_still_tells_what_it_took_away(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a")), schema="s"))
    block = store.commit(lease, commit_of("r2", outcome(0), removes=(file("a"),)))
    new_data = block["event"]["newData"]
    assert new_data["offsetInterval"] is None
    assert new_data["parts"] == []
    assert [part["start"] for part in new_data["removes"]] == [0]
    after = store.commit(
        lease, commit_of("r3", outcome(1), moves=moves(file("z"), file("y", rows=0)), schema="s")
    )
    assert after["event"]["newData"]["offsetInterval"] == {"start": 10, "end": 19}
    assert store.last_rows() == 10
    assert verify_chain(store).problems == ()


def test_without_watermarks_only_files_and_runs_are_kept(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    sequences = [store.next_sequence()]
    for run in ("r1", "r2"):
        commit = commit_of(run, outcome(0), moves=moves(file(run)), watermarks=False)
        store.record_intent(lease, Intent(commit, lease.token, "/data", store.next_sequence()))
        assert store.commit(lease, commit) is None
        sequences.append(store.next_sequence())
    assert sequences == [0, 1, 2]
    assert store.head() is None
    assert store.history().is_empty()
    assert [each.uri for each in store.live_files()] == ["file:///data/r1", "file:///data/r2"]
    assert store.last_rows() == 10
    assert store.pending_intent() is None


def test_sequences_keep_growing_when_watermarks_are_turned_on(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    for number in range(5):
        store.commit(
            lease, commit_of(f"r{number}", moves=moves(file(f"f{number}")), watermarks=False)
        )
    before = store.next_sequence()
    store.commit(lease, commit_of("r9", outcome(0), moves=moves(file("z")), schema="s"))
    assert store.next_sequence() > before


def test_last_rows_is_of_the_last_run_that_published_any(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a", rows=7)), schema="s"))
    store.commit(lease, commit_of("r2", outcome(1)))
    assert store.last_rows() == 7


# Watermark


def test_the_watermark_stops_at_the_first_open_work_unit_and_never_moves_back(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)

    def watermark(run: str, *outcomes: WorkUnitOutcome, **changes: object) -> str:
        return store.commit(lease, commit_of(run, *outcomes, **changes))["event"]["newWatermark"]

    assert watermark("r1", outcome(0), outcome(1, ok=False), outcome(2)).startswith("2024-01-02")
    assert watermark("r2", outcome(1)).startswith("2024-01-04")
    assert watermark("r3", outcome(-5, ok=False)).startswith("2024-01-04")
    capped = watermark("r4", outcome(-5), outcome(9), left_low=START + 5 * DAY)
    assert capped.startswith("2024-01-06")


def test_a_partition_that_ends_in_the_future_does_not_carry_the_watermark_there(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    block = store.commit(lease, commit_of("r1", outcome(0, days=4000)))
    assert block["event"]["newWatermark"] == "2025-02-04T00:00:00.000Z"


def test_system_time_never_runs_backwards(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    first = store.commit(lease, commit_of("r1", outcome(0)))
    second = store.commit(lease, commit_of("r2", outcome(1), system_time=NOW - DAY))
    assert second["systemTime"] == first["systemTime"] == "2025-02-04T00:00:00.000000Z"


# Work units and history


def test_a_success_is_kept_through_later_failures_and_never_lowered(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    long = outcome(0, days=3)
    store.commit(lease, commit_of("r1", long))
    store.commit(lease, commit_of("r2", outcome(0, ok=False, attempts=5)))
    record = UnitRecord(signature(0), START, START + 3 * DAY, failed=True, attempts=6)
    history = store.history()
    assert history.records("u.{}", START, START + 1) == {signature(0): record}
    assert history.open_records("u.{}") == {signature(0): record}
    assert record.succeeded_once
    store.commit(lease, commit_of("r3", outcome(0)))
    assert list(store.unit_states()) == [
        UnitState(signature(0), START, START + 3 * DAY, "COMMITTED", 7)
    ]


def test_a_unit_that_never_succeeded_has_no_high(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(4, ok=False)))
    assert list(store.unit_states()) == [
        UnitState(signature(4), START + 4 * DAY, None, "FAILED", 1)
    ]
    coverage = store.history().coverage("u.{}")
    assert coverage is not None
    assert coverage.covered_from == coverage.covered_to
    assert coverage.open_count == 1


def test_unit_states_are_ordered_by_start_then_signature(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(
        lease, commit_of("r1", *(outcome(day, unit=u) for day in (2, 0, 1) for u in "cab"))
    )
    listed = [(state.low, state.signature) for state in store.unit_states()]
    assert listed == sorted(listed)
    assert len(listed) == 9


def test_records_are_found_by_unit_and_half_open_range(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", *(outcome(day, unit=u) for day in range(5) for u in "ab")))
    found = store.history().records("u.a", START + DAY, START + 3 * DAY)
    assert list(found) == [signature(1, "a"), signature(2, "a")]


def test_history_is_of_one_point_in_time(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0)))
    before = store.history()
    store.commit(lease, commit_of("r2", outcome(1)))
    assert before.coverage("u.{}") == Coverage(START, START + DAY, START + DAY, 0)
    assert store.history().coverage("u.{}") == Coverage(START, START + 2 * DAY, START + 2 * DAY, 0)


def test_history_equals_a_scan_after_random_commits(store: StateStore) -> None:
    lease = store.acquire_lease("r0", lease_s=60)
    chance = random.Random(7)
    latest: dict[str, WorkUnitOutcome] = {}
    highs: dict[str, int] = {}
    for run in range(40):
        picked = {(chance.randrange(25), chance.choice("ab")) for _ in range(4)}
        outcomes = [outcome(d, unit=u, ok=chance.random() < 0.7) for d, u in sorted(picked)]
        chance.shuffle(outcomes)
        store.commit(lease, commit_of(f"r{run}", *outcomes))
        for each in outcomes:
            latest[each.signature] = each
            if each.high is not None:
                highs[each.signature] = each.high
    history = store.history()
    for unit in "ab":
        mine = {sig: each for sig, each in latest.items() if each.unit_key == f"u.{unit}"}
        records = history.records(f"u.{unit}", 0, NOW)
        assert {sig: (r.high, r.failed) for sig, r in records.items()} == {
            sig: (highs.get(sig), not each.succeeded) for sig, each in mine.items()
        }
        assert set(history.open_records(f"u.{unit}")) == {
            sig for sig, each in mine.items() if not each.succeeded
        }
        coverage = history.coverage(f"u.{unit}")
        assert coverage is not None
        assert coverage.max_high == max(high for sig, high in highs.items() if sig in mine)
        assert coverage.open_count == sum(not each.succeeded for each in mine.values())
        for start in range(coverage.covered_from, coverage.covered_to, DAY):
            assert records[signature((start - START) // DAY, unit)].succeeded_once
    assert verify_chain(store).problems == ()


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


def test_a_store_whose_writer_is_killed_again_and_again_stays_consistent(
    store: StateStore, place: Place
) -> None:
    body = """
        import itertools
        first = int(sys.argv[1]) if len(sys.argv) > 1 else store.next_sequence()
        lease = store.acquire_lease("r", lease_s=3600)
        print("started", flush=True)
        for number in itertools.count(first):
            day = number % 50
            commit = commit_of(f"r{number}", outcome(day), outcome(day, unit="b", ok=day % 3 > 0),
                               moves=moves(file(f"f{number}", day=day)), schema="s")
            store.record_intent(lease, Intent(commit, lease.token, "/data", store.next_sequence()))
            store.commit(lease, commit)
            print(f"r{number}", flush=True)
    """
    acknowledged: list[str] = []
    for wanted in (3, 17, 31, 8):
        with child(place, body) as writer:
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
    uris = {each.uri for each in store.live_files()}
    assert uris >= {f"file:///data/f{run[1:]}" for run in acknowledged}
    added = [
        part["path"]
        for block in store.blocks()
        if (block["event"].get("newData") or {}).get("parts")
        for part in block["event"]["newData"]["parts"]
    ]
    assert sorted(added) == sorted(uris)
