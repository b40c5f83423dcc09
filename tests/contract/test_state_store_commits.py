"""What every state store makes of a commit: blocks, watermarks, work units, history."""

import random
from dataclasses import replace

import pytest

from dil.errors import CommitConflictError
from dil.model.dataset import Intent, OperatorAct, WorkUnitOutcome
from dil.model.history import Coverage, UnitRecord
from dil.spi.state_store import StateStore, UnitState
from dil.state.blocks.verification import verify_chain
from tests.contract.state_stores import (
    DAY,
    NOW,
    START,
    Place,
    commit_of,
    committed,
    file,
    moves,
    outcome,
    signature,
)

# Commit


def test_the_first_commit_writes_seed_config_schema_and_data(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    block = committed(
        store,
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
    assert store.last_rows() == 15


def test_config_and_schema_blocks_are_written_only_when_they_change(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)

    def kinds_after(run: str, day: int, digest: str, schema: str) -> list[str]:
        before = sum(1 for _ in store.blocks())
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
        kinds = [block["event"]["kind"] for block in store.blocks()]
        return kinds[: len(kinds) - before]

    kinds_after("r1", 0, "c1", "s1")
    assert kinds_after("r2", 1, "c1", "s1") == ["AddData"]
    assert kinds_after("r3", 2, "c2", "s1") == ["AddData", "SetPollingSource"]
    assert kinds_after("r4", 3, "c2", "s2") == ["AddData", "SetDataSchema"]
    assert verify_chain(store).problems == ()


def test_offsets_watermark_and_state_carry_over_commits_without_data(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a")), schema="s"))
    failed = committed(store, lease, commit_of("r2", outcome(1, ok=False)))
    assert failed["event"]["newData"] is None
    assert failed["event"]["prevOffset"] == 9
    assert failed["event"]["newWatermark"] == "2024-01-02T00:00:00.000Z"
    again = committed(store, lease, commit_of("r3", outcome(1), moves=moves(file("b")), schema="s"))
    assert again["event"]["prevOffset"] == 9
    assert again["event"]["newData"]["offsetInterval"] == {"start": 10, "end": 19}
    assert again["event"]["newWatermark"] == "2024-01-03T00:00:00.000Z"


def test_source_state_tells_counts_marks_and_the_change_alone(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", *(outcome(day) for day in range(5))))
    block = committed(store, lease, commit_of("r2", outcome(5, ok=False, attempts=3)))
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
    assert first == store.head()["sequenceNumber"]
    assert list(store.unit_states()) == [
        UnitState(signature(0), START, START + DAY, "COMMITTED", 1)
    ]


def test_a_commit_that_changes_nothing_writes_no_block_but_drops_the_intent(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    head = committed(store, lease, commit_of("r1", outcome(0)))
    nothing = commit_of("r2", config_digest="other")
    store.record_intent(lease, Intent(nothing, lease.token, "/data", 1))
    assert store.commit(lease, nothing) is None
    assert store.pending_intent() is None
    assert store.head() == head


def test_a_success_that_is_repeated_without_data_writes_no_block(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    head = committed(store, lease, commit_of("r1", outcome(0), moves=moves(file("a"))))
    assert store.commit(lease, commit_of("r2", outcome(0))) is None
    assert store.head() == head

    failed = committed(store, lease, commit_of("r3", replace(outcome(0), high=None)))
    assert failed is not None
    again = committed(store, lease, commit_of("r4", outcome(0)))
    assert again is not None
    assert [each.attempts for each in store.unit_states()] == [3]


def test_a_commit_of_work_units_that_another_writer_committed_since_is_a_conflict(
    store: StateStore, place: Place
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.history()
    with place.open() as other:
        other.commit(lease, commit_of("r1", outcome(0)))
    mine = commit_of("r2", outcome(0, days=2), outcome(1))
    with pytest.raises(CommitConflictError):
        store.commit(lease, mine)
    with pytest.raises(CommitConflictError):
        store.record_intent(lease, Intent(mine, lease.token, "/data", 5))
    assert [state.signature for state in store.unit_states()] == [signature(0)]
    store.history()
    assert store.commit(lease, mine) is not None


def test_a_commit_of_other_work_units_goes_behind_what_was_committed_since(
    store: StateStore, place: Place
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r0", outcome(9), moves=moves(file("z")), schema="s"))
    store.history()
    with place.open() as other:
        other.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a")), schema="s"))
    block = committed(store, lease, commit_of("r2", outcome(1), moves=moves(file("b")), schema="s"))
    assert block["event"]["newData"]["offsetInterval"] == {"start": 20, "end": 29}
    assert verify_chain(store).problems == ()


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
    assert store.commit(lease, commit) == store.head()["sequenceNumber"]


def test_removed_files_are_named_with_their_offsets_and_are_expected_no_more(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    one, two, three = file("a", day=0), file("b", day=1, rows=3), file("c", day=1, run="r2")
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(one, two), schema="s"))
    block = committed(
        store, lease, commit_of("r2", outcome(1), moves=moves(three), removes=(two,), schema="s")
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
    sizes = {each.uri: each.bytes for each in (one, three)}
    assert verify_chain(store, size_of=sizes.get).problems == ()


def test_a_replace_that_leaves_no_row_still_tells_what_it_took_away(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a")), schema="s"))
    block = committed(store, lease, commit_of("r2", outcome(0), removes=(file("a"),)))
    new_data = block["event"]["newData"]
    assert new_data["offsetInterval"] is None
    assert new_data["parts"] == []
    assert [part["start"] for part in new_data["removes"]] == [0]
    after = committed(
        store,
        lease,
        commit_of("r3", outcome(1), moves=moves(file("z"), file("y", rows=0)), schema="s"),
    )
    assert after["event"]["newData"]["offsetInterval"] == {"start": 10, "end": 19}
    assert store.last_rows() == 10
    assert verify_chain(store).problems == ()


def test_without_watermarks_only_runs_are_kept(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    for run in ("r1", "r2"):
        commit = commit_of(run, outcome(0), moves=moves(file(run)), watermarks=False)
        store.record_intent(lease, Intent(commit, lease.token, "/data", 0))
        assert store.commit(lease, commit) is None
    assert store.head() is None
    assert store.history().is_empty()
    assert store.last_rows() == 10
    assert store.pending_intent() is None


def test_the_chain_begins_when_watermarks_are_turned_on(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", moves=moves(file("a")), watermarks=False))
    block = committed(
        store,
        lease,
        commit_of("r2", outcome(0), moves=moves(file("b")), removes=(file("a"),), schema="s"),
    )
    assert block["event"]["newData"]["offsetInterval"] == {"start": 0, "end": 9}
    assert [part["start"] for part in block["event"]["newData"]["removes"]] == [None]
    assert verify_chain(store).problems == ()


def test_a_run_without_watermarks_adds_its_files_to_the_chain_of_earlier_runs(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    first = commit_of("r1", outcome(0), outcome(1), moves=moves(file("a"), file("b")), schema="s")
    store.commit(lease, first)
    commit = commit_of("r2", outcome(0), outcome(2), moves=moves(file("c")), watermarks=False)
    run = replace(commit.run, forgotten=(signature(1),))

    block = committed(store, lease, replace(commit, removes=(file("a"), file("b")), run=run))

    new = block["event"]["newData"]
    assert [part["path"] for part in new["parts"]] == [file("c").uri]
    assert [part["path"] for part in new["removes"]] == [file("a").uri, file("b").uri]
    assert {each.signature for each in store.unit_states()} == {signature(0)}
    assert verify_chain(store).problems == ()


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
        block = committed(store, lease, commit_of(run, *outcomes, **changes))
        return block["event"]["newWatermark"]

    assert watermark("r1", outcome(0), outcome(1, ok=False), outcome(2)).startswith("2024-01-02")
    assert watermark("r2", outcome(1)).startswith("2024-01-04")
    assert watermark("r3", outcome(-5, ok=False)).startswith("2024-01-04")
    capped = watermark("r4", outcome(-5), outcome(9), left_low=START + 5 * DAY)
    assert capped.startswith("2024-01-06")


def test_a_partition_that_ends_in_the_future_does_not_carry_the_watermark_there(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    block = committed(store, lease, commit_of("r1", outcome(0, days=4000)))
    assert block["event"]["newWatermark"] == "2025-02-04T00:00:00.000Z"


def test_system_time_never_runs_backwards(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    first = committed(store, lease, commit_of("r1", outcome(0)))
    second = committed(store, lease, commit_of("r2", outcome(1), system_time=NOW - DAY))
    assert second["systemTime"] == first["systemTime"] == "2025-02-04T00:00:00.000000Z"


# Work units and history


def test_a_success_is_kept_through_later_failures_and_never_lowered(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    long = outcome(0, days=3)
    store.commit(lease, commit_of("r1", long))
    store.commit(lease, commit_of("r2", outcome(0, ok=False, attempts=5)))
    record = UnitRecord(
        signature(0), START, START + 3 * DAY, failed=True, attempts=6, owed=START + DAY
    )
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


# Work units that no run reads


def _left_out(number: int, unit: str = "{}") -> WorkUnitOutcome:
    label = f"202401{number + 1:02}000000"
    return replace(outcome(number, unit=unit), high=None, attempts=0, timelabel=label)


def test_history_with_skipped_work_units_equals_a_scan(store: StateStore) -> None:
    lease = store.acquire_lease("r0", lease_s=60)
    chance = random.Random(11)
    known: dict[str, str] = {}
    skipped: set[str] = set()
    for run in range(40):
        picked = {(chance.randrange(25), chance.choice("ab")) for _ in range(6)}
        places = chance.sample(sorted(picked), len(picked))
        outcomes = [outcome(d, unit=u, ok=chance.random() < 0.8) for d, u in places[:-3]]
        left_out = [_left_out(d, u) for d, u in places[-3:]]
        store.commit(lease, commit_of(f"r{run}", *outcomes, skipped=tuple(left_out)))
        known |= {each.signature: "read" if each.succeeded else "failed" for each in outcomes}
        for each in left_out:
            if known.setdefault(each.signature, "skipped") == "skipped":
                skipped.add(each.signature)
    history = store.history()
    for unit in "ab":
        mine = {sig: how for sig, how in known.items() if sig.endswith(f"u.{unit}]")}
        records = history.records(f"u.{unit}", 0, NOW)
        assert {sig: (each.failed, each.skipped) for sig, each in records.items()} == {
            sig: (how == "failed", how == "skipped") for sig, how in mine.items()
        }
        coverage = history.coverage(f"u.{unit}")
        assert coverage is not None
        assert coverage.open_count == sum(how == "failed" for how in mine.values())
        for start in range(coverage.covered_from, coverage.covered_to, DAY):
            covered = signature((start - START) // DAY, unit)
            assert records[covered].succeeded_once or covered in skipped
    assert verify_chain(store).problems == ()


def test_skipped_work_units_are_recorded_covered_and_never_open(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0)))
    block = committed(
        store, lease, commit_of("r2", outcome(3), skipped=(_left_out(1), _left_out(2)))
    )
    key, history = outcome(0).unit_key, store.history()

    assert block["event"]["newWatermark"] == "2024-01-05T00:00:00.000Z"
    found = history.records(key, START, NOW)
    assert [each for each in found if found[each].skipped] == [signature(1), signature(2)]
    assert found[signature(1)] == UnitRecord(signature(1), START + DAY, None, skipped=True)
    assert history.open_records(key) == {}
    coverage = history.coverage(key)
    assert coverage == Coverage(START, START + 4 * DAY, START + 4 * DAY, 0)
    assert history.lowest() == START
    assert [each.status for each in store.unit_states()] == [
        "COMMITTED", "SKIPPED", "SKIPPED", "COMMITTED",
    ]  # fmt: skip
    assert verify_chain(store).problems == ()


def test_what_is_known_is_not_skipped_and_what_was_skipped_can_be_read(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    failed = replace(outcome(1), high=None, error="refused")
    store.commit(lease, commit_of("r1", outcome(0), failed, skipped=(_left_out(2),)))
    skipped = (_left_out(0), _left_out(1), _left_out(2))
    assert store.commit(lease, commit_of("r2", skipped=skipped)) is None
    assert [each.status for each in store.unit_states()] == ["COMMITTED", "FAILED", "SKIPPED"]

    store.commit(lease, commit_of("r3", outcome(2)))

    record = store.history().records(outcome(2).unit_key, START, NOW)[signature(2)]
    assert (record.high, record.skipped, record.failed) == (START + 3 * DAY, False, False)
    assert verify_chain(store).problems == ()


def test_an_intent_that_skips_is_finished_by_anyone(store: StateStore, place: Place) -> None:
    commit = commit_of("r1", outcome(1), skipped=(_left_out(0),))
    store.record_intent(lease := store.acquire_lease("r1", lease_s=60), Intent(commit, 1, "/d", 0))
    store.release_lease(lease)
    with place.open() as other:
        pending = other.pending_intent()
        assert pending is not None
        other.commit(other.acquire_lease("r2", lease_s=60), pending.commit)
        assert [each.status for each in other.unit_states()] == ["SKIPPED", "COMMITTED"]


def test_a_store_without_work_units_has_no_lowest(store: StateStore) -> None:
    assert store.history().lowest() is None


def test_checkpoints_of_a_commit_are_set_with_it_once(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.change_checkpoint(lease, "event_time", {"kept": "x", "watermark": 1})
    commit = replace(
        commit_of("r1", outcome(0), moves=moves(file("a"))),
        checkpoints={"event_time": {"watermark": 2}, "lateness": {"rows": 7}},
    )
    store.record_intent(lease, Intent(commit, lease.token, "/data", 0))
    assert store.checkpoint("event_time")["watermark"] == 1
    pending = store.pending_intent()
    assert pending is not None
    store.commit(lease, pending.commit)
    assert store.checkpoint("event_time") == {"kept": "x", "watermark": 2}
    assert store.checkpoint("lateness") == {"rows": 7}
    store.change_checkpoint(lease, "event_time", {"watermark": 3})
    store.commit(lease, pending.commit)
    assert store.checkpoint("event_time")["watermark"] == 3


def test_checkpoints_of_an_act_are_set_with_it_once(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), moves=moves(file("a"))))
    store.change_checkpoint(lease, "event_time", {"watermark": 1})
    act = OperatorAct("forget", "", removed=(signature(0),))
    commit = replace(
        commit_of("forget-1"),
        removes=(file("a"),),
        act=act,
        checkpoints={"event_time": {"forgotten_until": 2}},
    )
    store.record_intent(lease, Intent(commit, lease.token, "/data", 1))
    assert store.checkpoint("event_time") == {"watermark": 1}
    pending = store.pending_intent()
    assert pending is not None
    store.commit(lease, pending.commit)
    assert store.checkpoint("event_time") == {"watermark": 1, "forgotten_until": 2}
    assert list(store.unit_entries()) == []
    store.change_checkpoint(lease, "event_time", {"forgotten_until": 3})
    store.commit(lease, pending.commit)
    assert store.checkpoint("event_time") == {"watermark": 1, "forgotten_until": 3}


def test_a_commit_forgets_work_units_before_it_records_its_outcomes(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(
        lease, commit_of("r1", *(outcome(day) for day in range(4)), moves=moves(file("a")))
    )
    earlier = store.head()
    forgotten = (signature(0), signature(1), signature(3))
    commit = commit_of("r2", outcome(2), outcome(1, ok=False), moves=moves(file("b", run="r2")))
    commit = replace(commit, removes=(file("a"),), run=replace(commit.run, forgotten=forgotten))
    store.record_intent(lease, Intent(commit, lease.token, "/d", 1))
    assert store.pending_intent() == Intent(commit, lease.token, "/d", 1)
    assert store.head() == earlier

    block = committed(store, lease, commit)

    assert store.commit(lease, commit) == block["sequenceNumber"]
    found = {each.signature: (each.status, each.high) for each in store.unit_states()}
    assert found == {
        signature(1): ("FAILED", None),
        signature(2): ("COMMITTED", START + 3 * DAY),
    }
    history = store.history()
    assert history.lowest() == START + DAY
    assert history.coverage("u.{}") == Coverage(
        START + 2 * DAY, START + 3 * DAY, START + 3 * DAY, 1
    )
    value = block["event"]["newSourceState"]["value"]
    assert (value["maxHigh"], value["frontier"]) == (START + 3 * DAY, START + DAY)
    assert block["event"]["newWatermark"] == "2024-01-05T00:00:00.000Z"
    assert verify_chain(store).problems == ()
    # An ordinary run reads the forgotten work units again.
    store.commit(lease, commit_of("r3", outcome(0), outcome(1), outcome(3)))
    assert store.history().coverage("u.{}") == Coverage(START, START + 4 * DAY, START + 4 * DAY, 0)
    assert verify_chain(store).problems == ()
