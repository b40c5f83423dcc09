"""Acts of operators in the store: sound after any mixture with runs, whatever their size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dil.errors import StateError
from dil.model.dataset import Commit, OperatorAct, RunWork, UnitEntry, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.amendments import recording
from dil.state.amendments.amended_history import AmendedHistory
from dil.state.amendments.last_act import last_act
from dil.state.amendments.operations import Selection, forget, import_highs, rewind, undo
from dil.state.blocks.verification import verify_chain
from dil.state.work_units.signatures import ImportedHigh, parts_of_signature

pytestmark = pytest.mark.slow

NOW = 1_735_689_600_000
HOUR = 3_600_000
GRID = {hour * HOUR: (hour + 1) * HOUR for hour in range(100)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    with open_store(StateSpec("sqlite", str(tmp_path)), "orders", clock=lambda: NOW) as opened:
        yield opened


def signature(hour: int, unit: str = "a") -> str:
    return f'[watermark.dt.{hour * HOUR}, watermark.u.{{"id":"{unit}"}}]'


def outcome(hour: int, unit: str = "a", *, ok: bool = True) -> WorkUnitOutcome:
    low, high = hour * HOUR, (hour + 1) * HOUR
    key = f'u.{{"id":"{unit}"}}'
    return WorkUnitOutcome(signature(hour, unit), key, low, high, high if ok else None, 1)


def run(
    store: StateStore, name: str, *outcomes: WorkUnitOutcome, forgotten: tuple[str, ...] = ()
) -> None:
    lease = store.acquire_lease(name, lease_s=60)
    work = RunWork(outcomes, forgotten=forgotten)
    store.commit(lease, Commit(name, "c", "dil/orders", (), (), "", NOW, NOW, work))
    store.release_lease(lease)


def do(store: StateStore, name: str, act: OperatorAct) -> None:
    lease = store.acquire_lease(name, lease_s=60)
    commit = Commit(name, "c", "dil/orders", (), (), "", NOW, NOW, act=act)
    first = store.commit(lease, commit)
    assert store.commit(lease, commit) == first
    store.release_lease(lease)


def head_value(store: StateStore) -> dict:
    head = store.head()
    assert head is not None
    return head["event"]["newSourceState"]["value"]


def test_a_large_act_takes_several_blocks_and_is_one_act(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "ROWS_PER_BLOCK", 3)
    run(store, "r1", *(outcome(hour, unit) for hour in range(4) for unit in "ab"))
    entries = list(store.unit_entries())
    do(store, "f", forget(entries, Selection()).act("all", GRID))

    kinds = [block["event"]["kind"] for block in store.blocks()][:4]
    assert kinds == ["AddData", "AddData", "AddData", "ResetState"]
    assert head_value(store)["counts"] == {"PENDING": 8}
    assert head_value(store)["maxHigh"] is None
    last = last_act(store.blocks(), store.blocks())
    assert last is not None
    assert len(last.signatures) == 8
    do(store, "u", undo(last, store.unit_entries(), entries, None).act("", GRID))
    assert list(store.unit_entries()) == entries
    assert head_value(store)["maxHigh"] == 4 * HOUR
    assert verify_chain(store).problems == ()


def test_the_chain_names_the_act_and_its_reason(store: StateStore) -> None:
    run(store, "r1", outcome(0))
    do(store, "forget-1", forget(store.unit_entries(), Selection()).act("source was wrong", GRID))
    reset = next(b["event"] for b in store.blocks() if b["event"]["kind"] == "ResetState")
    assert reset == {
        "kind": "ResetState",
        "fields": ["sourceState"],
        "reason": "source was wrong",
        "act": "forget",
        "actId": "forget-1",
        "dataBlocks": 1,
    }


def test_a_forgotten_work_unit_is_no_record_and_holds_the_frontier(store: StateStore) -> None:
    run(store, "r1", *(outcome(hour) for hour in range(5)))
    proposal = forget(store.unit_entries(), Selection(low=2 * HOUR, high=3 * HOUR))
    do(store, "f", proposal.act("", GRID))
    history = store.history()
    assert list(history.records('u.{"id":"a"}', 0, NOW)) == [signature(h) for h in (0, 1, 3, 4)]
    assert history.open_records('u.{"id":"a"}') == {}
    coverage = history.coverage('u.{"id":"a"}')
    assert coverage is not None
    assert (coverage.covered_from, coverage.covered_to, coverage.max_high) == (
        0,
        2 * HOUR,
        5 * HOUR,
    )
    assert head_value(store)["frontier"] == 2 * HOUR
    head = store.head()
    assert head is not None
    assert head["event"]["newWatermark"] == "1970-01-01T05:00:00.000Z"


def test_an_imported_success_off_the_grid_is_a_record_and_never_covered(
    store: StateStore,
) -> None:
    week = UnitEntry(signature(0), 0, 7 * HOUR, 7 * HOUR, "COMMITTED", 0)
    do(store, "i", OperatorAct("import", "", (week,)))
    coverage = store.history().coverage('u.{"id":"a"}')
    assert coverage is not None
    assert coverage.covered_from == coverage.covered_to
    assert coverage.max_high == 7 * HOUR
    on_grid = replace(week, signature=signature(8), low=8 * HOUR, expected_high=9 * HOUR,
                      high=9 * HOUR, is_on_grid=True)  # fmt: skip
    do(store, "j", OperatorAct("import", "", (on_grid,)))
    coverage = store.history().coverage('u.{"id":"a"}')
    assert coverage is not None
    assert (coverage.covered_from, coverage.covered_to) == (8 * HOUR, 9 * HOUR)
    assert verify_chain(store).problems == ()


def test_an_import_behind_the_end_of_a_pending_work_unit_covers_nothing(store: StateStore) -> None:
    run(store, "r1", *(outcome(hour) for hour in range(3)))
    two = forget(store.unit_entries(), Selection(low=HOUR))
    do(store, "f", two.act("", GRID))
    too_far = read_high(1, 3 * HOUR)
    do(store, "i", import_highs(store.unit_entries(), [too_far], replaces=False).act("", GRID))
    coverage = store.history().coverage('u.{"id":"a"}')
    assert coverage is not None
    assert (coverage.covered_from, coverage.covered_to) == (0, HOUR)


def test_an_import_below_what_is_owed_leaves_a_failed_work_unit_failed(store: StateStore) -> None:
    run(store, "r1", outcome(0, ok=False), outcome(1))
    highs = read_high(0, HOUR // 2)
    do(store, "i", import_highs(store.unit_entries(), [highs], replaces=False).act("", GRID))

    (record,) = store.history().open_records('u.{"id":"a"}').values()
    assert (record.high, record.owed) == (HOUR // 2, HOUR)
    do(
        store,
        "j",
        import_highs(store.unit_entries(), [read_high(0, HOUR)], replaces=False).act("", GRID),
    )
    assert store.history().open_records('u.{"id":"a"}') == {}
    assert verify_chain(store).problems == ()


def read_high(hour: int, high: int) -> ImportedHigh:
    parts = parts_of_signature(signature(hour))
    assert parts is not None
    return ImportedHigh(signature(hour), parts, high)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("run"),
            st.lists(
                st.tuples(st.integers(0, 6), st.sampled_from("ab"), st.booleans()),
                min_size=1, max_size=4, unique_by=lambda each: each[:2],
            ),
        ),
        st.tuples(
            st.just("replace"),
            st.lists(
                st.tuples(st.integers(0, 6), st.sampled_from("ab")),
                min_size=1, max_size=3, unique=True,
            ),
        ),
        st.tuples(st.just("forget"), st.tuples(st.integers(0, 6), st.integers(1, 4))),
        st.tuples(st.just("rewind"), st.integers(0, 30)),
        st.tuples(st.just("undo"), st.none()),
    ),
    max_size=9,
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_any_mixture_of_runs_and_acts_is_sound_and_claims_nothing(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple]
) -> None:
    spec = StateSpec("sqlite", str(tmp_path_factory.mktemp("s")))
    with open_store(spec, "orders", clock=lambda: NOW) as store:
        for number, (kind, detail) in enumerate(found):
            step(store, kind, detail, f"{kind}-{number}")
        assert verify_chain(store).problems == ()
        entries = list(store.unit_entries())
        head = store.head()
        if head is not None:
            assert list(store.unit_entries(as_of=int(head["sequenceNumber"]))) == entries
        history = store.history()
        assert history.is_empty() == all(entry.status == "PENDING" for entry in entries)
        assert history.has_succeeded() == any(
            entry.status == "COMMITTED" or (entry.status == "FAILED" and entry.high is not None)
            for entry in entries
        )
        for unit in "ab":
            key = f'u.{{"id":"{unit}"}}'
            coverage, records = history.coverage(key), history.records(key, 0, NOW)
            assert (coverage is None) == (not records)
            if coverage is None:
                continue
            assert set(history.open_records(key)) == {s for s, r in records.items() if r.failed}
            assert coverage.open_count == sum(record.failed for record in records.values())
            for low in range(coverage.covered_from, coverage.covered_to, HOUR):
                assert records[signature(low // HOUR, unit)].succeeded_once


def step(store: StateStore, kind: str, detail: object, name: str) -> None:
    head = store.head()
    if kind == "run":
        run(store, name, *(outcome(hour, unit, ok=ok) for hour, unit, ok in detail))
        return
    if head is None:
        return
    entries = list(store.unit_entries())
    if kind == "replace":
        read = tuple(outcome(hour, unit) for hour, unit in detail)
        left = {entry.signature for entry in entries if entry.high is not None}
        run(store, name, *read, forgotten=tuple(sorted(left)))
        successes = {entry.signature for entry in store.unit_entries() if entry.high is not None}
        assert successes == {each.signature for each in read}
    elif kind == "forget":
        low, length = detail
        selection = Selection(low=low * HOUR, high=(low + length) * HOUR)
        do(store, name, forget(entries, selection).act("", GRID))
    elif kind == "rewind":
        at = detail % (int(head["sequenceNumber"]) + 1)
        then = list(store.unit_entries(as_of=at))
        do(store, name, rewind(entries, then, None, None).act("", GRID))
        assert list(store.unit_entries()) == then
    else:
        last = last_act(store.blocks(), store.blocks())
        if last is not None and not last.overwritten:
            then = list(store.unit_entries(as_of=last.sequence - 1))
            do(store, name, undo(last, entries, then, None).act("", GRID))
            mine = {entry for entry in then if entry.signature in last.signatures}
            assert mine <= set(store.unit_entries())


def test_a_run_forgets_many_work_units_in_several_blocks_before_its_own(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "ROWS_PER_BLOCK", 2)
    run(store, "r1", *(outcome(hour) for hour in range(5)))
    before = store.head()
    assert before is not None

    run(store, "r2", outcome(4), forgotten=tuple(signature(hour) for hour in range(5)))

    head = store.head()
    assert head is not None
    assert int(head["sequenceNumber"]) == int(before["sequenceNumber"]) + 4
    assert [entry.signature for entry in store.unit_entries()] == [signature(4)]
    assert head_value(store)["frontier"] == 5 * HOUR
    assert verify_chain(store).problems == ()


def test_an_act_removes_what_is_left_of_its_work_units(store: StateStore) -> None:
    run(store, "r1", outcome(0), outcome(1))
    do(store, "p", OperatorAct("prune", "", removed=(signature(0), signature(9))))
    assert [entry.signature for entry in store.unit_entries()] == [signature(1)]
    assert verify_chain(store).problems == ()


def test_a_work_unit_whose_signature_cannot_be_read_is_not_imported(store: StateStore) -> None:
    entry = UnitEntry("[watermark.dt.0]", 0, HOUR, HOUR, "COMMITTED", 0)
    with pytest.raises(StateError, match=r"dt\.0\] is not the signature of a work") as caught:
        do(store, "i", OperatorAct("import", "", (entry,)))
    assert "[watermark.<name>.<start>, watermark.<name>.<unit JSON>]" in caught.value.fix
    assert list(store.unit_entries()) == []


def test_a_preview_begins_where_the_rows_that_a_rewind_keeps_begin(store: StateStore) -> None:
    """The periods before the first run are left out, and a run of an older period was undone."""
    run(store, "r1", outcome(5, ok=False))
    then = list(store.unit_entries())
    run(store, "r2", outcome(2))
    proposal = rewind(store.unit_entries(), then, None, None)

    foreseen = AmendedHistory(store.history(), proposal, store.unit_entries)

    assert foreseen.lowest() == 5 * HOUR
    assert set(foreseen.open_records('u.{"id":"a"}')) == {signature(5)}


@given(
    recorded=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.booleans())),
    act=st.sampled_from(["forget", "rewind", "import"]),
    hour=st.integers(0, 6),
    asked=st.tuples(st.integers(0, 6), st.integers(0, 7)),
)
@settings(max_examples=60)
def test_a_preview_foresees_the_history_after_the_act(
    recorded: list[tuple[int, str, bool]], act: str, hour: int, asked: tuple[int, int]
) -> None:
    with TemporaryDirectory() as folder:
        place = StateSpec("sqlite", folder)
        with open_store(place, "orders", clock=lambda: NOW) as store:
            then: list[UnitEntry] = []
            for number, (at, unit, ok) in enumerate(recorded):
                if number == hour:
                    then = list(store.unit_entries())
                run(store, f"r{number}", outcome(at, unit, ok=ok))
            entries = list(store.unit_entries())
            if act == "forget":
                proposal = forget(entries, Selection(low=hour * HOUR))
            elif act == "rewind":
                proposal = rewind(entries, then, None, None)
            else:
                parts = parts_of_signature(signature(hour))
                assert parts is not None
                high = ImportedHigh(signature(hour), parts, (hour + 1) * HOUR)
                proposal = import_highs(entries, [high], replaces=False)
            foreseen = AmendedHistory(store.history(), proposal, store.unit_entries)
            keys = ['u.{"id":"a"}', 'u.{"id":"b"}']
            window = [each * HOUR for each in asked]
            before = [(foreseen.records(key, *window), foreseen.open_records(key)) for key in keys]
            whole = (foreseen.lowest(), foreseen.is_empty(), foreseen.has_succeeded())
            if proposal.changes:
                do(store, "act", proposal.act("", GRID))
            after = store.history()
            assert before == [
                (after.records(key, *window), after.open_records(key)) for key in keys
            ]
            assert whole == (after.lowest(), after.is_empty(), after.has_succeeded())
