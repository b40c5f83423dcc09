"""Names are kept and told apart to the last byte: no collation, padding or quoting changes them."""

from dataclasses import replace

import pytest
from msgspec import structs

from dil.model.dataset import Intent
from dil.state.blocks.verification import verify_chain
from tests.contract.state_stores import (
    START,
    Place,
    commit_of,
    committed,
    file,
    moves,
    outcome,
    run_record,
)

UNUSUAL = (
    "orders",
    "Orders",
    "ORDERS",
    "orders ",
    " orders",
    "orders\t",
    "caf\u00e9",
    "cafe\u0301",
    "cafe",
    "stra\u00dfe",
    "strasse",
    'it\'s "quoted" `so`',
    "100%",
    "100%s %(x)s",
    "what?",
    "back\\slash\\",
    "back\\\\slash\\\\",
    "semi;colon -- comment /* x */",
    "\u2603 \U0001f388",
    "..",
    "a/b",
    "a%2Fb",
)


def test_twins_of_a_name_are_jobs_of_their_own(place: Place) -> None:
    for number, name in enumerate(UNUSUAL):
        with place.open(name) as store:
            assert store.head() is None, name
            lease = store.acquire_lease(f"r{number}", lease_s=60)
            assert lease.token == 1, name
            store.commit(lease, commit_of(f"r{number}", outcome(number)))
    for number, name in enumerate(UNUSUAL):
        with place.open(name) as store:
            (state,) = store.unit_states()
            assert state.low == outcome(number).low, name
            assert verify_chain(store).problems == (), name


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f388"])
def test_a_job_name_may_have_two_hundred_characters(place: Place, letter: str) -> None:
    name = letter * 199
    for last in "ab":
        with place.open(name + last) as store:
            lease = store.acquire_lease("r1", lease_s=60)
            assert lease.token == 1
            store.commit(lease, commit_of("r1", outcome(0)))
            assert verify_chain(store).problems == ()


def test_twins_of_a_unit_are_work_units_of_their_own_ordered_by_code_point(place: Place) -> None:
    found = [outcome(0, unit=f'{{"u":"{name}"}}') for name in UNUSUAL]
    with place.open() as store:
        store.commit(store.acquire_lease("r1", lease_s=60), commit_of("r1", *found))
        assert [state.signature for state in store.unit_states()] == sorted(
            each.signature for each in found
        )
        history = store.history()
        for each in found:
            assert list(history.records(each.unit_key, START, START + 1)) == [each.signature]
        assert verify_chain(store).problems == ()


def test_twins_of_a_run_id_are_runs_of_their_own(place: Place) -> None:
    with place.open() as store:
        lease = store.acquire_lease("r", lease_s=60)
        for day, run in enumerate(["run", "Run", "run ", "r\u00fan"]):
            store.begin_run(lease, run_record(run))
            assert store.commit(lease, commit_of(run, outcome(day))) is not None
        assert sum(1 for _ in store.unit_states()) == 4
        assert len(store.unfinished_runs()) == 4


def test_texts_come_back_as_they_were(place: Place) -> None:
    text = "".join(UNUSUAL) + "\r\n\x01\x7f"
    published = structs.replace(file("x"), uri=f"file:///data/{text}")
    commit = commit_of(
        "r1", replace(outcome(0, ok=False), error=text), outcome(1), moves=moves(published),
        schema=text,
    )  # fmt: skip
    with place.open() as store:
        lease = store.acquire_lease("r1", lease_s=60)
        store.record_shape(lease, text)
        intent = Intent(commit, lease.token, f"/data/{text}", 0)
        store.record_intent(lease, intent)
    with place.open() as store:
        assert store.recorded_shape() == text
        assert store.pending_intent() == intent
        block = committed(store, lease, commit)
        assert block["event"]["newData"]["parts"][0]["path"] == published.uri
        assert verify_chain(store).problems == ()


def test_an_error_of_any_length_and_content_is_recorded(place: Place) -> None:
    error = "NUL \0 and \U0001f388 " * 20_000
    with place.open() as store:
        lease = store.acquire_lease("r1", lease_s=60)
        store.commit(lease, commit_of("r1", replace(outcome(0, ok=False), error=error)))
        assert [state.status for state in store.unit_states()] == ["FAILED"]


def test_an_intent_of_many_files_is_kept(place: Place) -> None:
    files = [file(f"{number:06}" + "x" * 100) for number in range(2_000)]
    with place.open() as store:
        lease = store.acquire_lease("r1", lease_s=60)
        commit = commit_of("r1", outcome(0), moves=moves(*files), schema="s")
        store.record_intent(lease, Intent(commit, lease.token, "/data", 0))
        assert store.pending_intent().commit == commit
