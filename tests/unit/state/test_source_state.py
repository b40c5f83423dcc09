"""The digest vectors (rule C17), and what stays bounded by the change."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.state.blocks.canonical import canonical
from dil.state.blocks.events import SourceState
from dil.state.blocks.source_state import (
    NO_ROWS,
    UnitRow,
    UnitSummary,
    removal,
    replace_in_digest,
    rolled_digest,
    row_hash,
)

DONE = UnitRow("dt.1704067200000|u.", 1704067200000, 1704153600000, 1704153600000, "COMMITTED", 1)
PENDING = UnitRow("dt.1704153600000|u.", 1704153600000, 1704240000000, 1704153600000, "PENDING", 0)
FAILED = replace(PENDING, status="FAILED", attempts=1, cursor={"page": 7, "sessionKey": "abc"})
BOTH = "22684b80849ae7b8ddeeb36d9ee66ff80244b20bb83850ac220f59080fc68e9e"
AFTER_FAILURE = "6f3805fe674202b01241f04b84a7089af450a53618d9735a8becfc89a11f2ecb"


def test_digest_of_two_rows_is_the_published_one() -> None:
    one = replace_in_digest(NO_ROWS, None, DONE.hash)
    assert replace_in_digest(one, None, PENDING.hash) == BOTH


def test_replacing_a_row_gives_the_published_digest() -> None:
    assert replace_in_digest(BOTH, PENDING.hash, FAILED.hash) == AFTER_FAILURE


def test_rolling_a_delta_gives_the_published_digest() -> None:
    delta = [FAILED.as_json()]
    assert rolled_digest(BOTH, delta, {PENDING.signature: PENDING.hash}) == AFTER_FAILURE


rows = st.builds(
    UnitRow,
    signature=st.sampled_from("abcdef"),
    low=st.integers(-(2**62), 2**62),
    expected_high=st.integers(0, 9),
    high=st.none() | st.integers(0, 9),
    status=st.sampled_from(["COMMITTED", "FAILED"]),
    attempts=st.integers(0, 3),
)


@settings(max_examples=50)
@given(st.lists(rows))
def test_the_digest_depends_on_the_rows_and_not_on_their_history(changes: list[UnitRow]) -> None:
    latest: dict[str, UnitRow] = {}
    digest = NO_ROWS
    for row in changes:
        old = latest.get(row.signature)
        digest = replace_in_digest(digest, old.hash if old else None, row.hash)
        latest[row.signature] = row
    fresh = NO_ROWS
    for row in sorted(latest.values(), key=lambda each: each.signature):
        fresh = replace_in_digest(fresh, None, row.hash)
    assert digest == fresh
    assert len(digest) == 64


def test_a_summary_survives_its_json_form() -> None:
    summary = UnitSummary(57, BOTH, 1704153600000, None, {"COMMITTED": 400, "FAILED": 1})
    state = summary.as_state("dil/orders", [FAILED])
    read = UnitSummary.of(state)
    assert (read.version, read.digest, read.max_high, read.frontier, read.counts) == (
        57, BOTH, 1704153600000, None, {"COMMITTED": 400, "FAILED": 1},
    )  # fmt: skip
    assert UnitSummary.delta_of(state) == [FAILED.as_json()]


def test_an_absent_state_is_that_of_an_empty_index() -> None:
    assert UnitSummary.of(None) == UnitSummary(0, NO_ROWS)


def test_state_equality_compares_version_and_digest_alone() -> None:
    one = UnitSummary(3, BOTH, 5, 4, {"FAILED": 1}).as_state("dil/orders", [FAILED])
    other = UnitSummary(3, BOTH, 6, 6, {}).as_state("dil/orders", [])
    assert UnitSummary.of(one) == UnitSummary.of(other)
    assert isinstance(one, SourceState)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.builds(
        UnitRow,
        signature=texts,
        low=st.integers(),
        expected_high=st.integers(),
        high=st.none() | st.integers(),
        status=texts,
        attempts=st.integers(),
        cursor=st.none() | st.dictionaries(texts, texts, max_size=2),
    )
)
def test_the_quick_way_to_a_rows_hash_gives_that_of_its_canonical_bytes(row: UnitRow) -> None:
    assert row.hash == hashlib.sha256(canonical(row.as_json())).hexdigest()


def test_a_fraction_in_a_row_has_no_hash() -> None:
    with pytest.raises(TypeError):
        row_hash({**DONE.as_json(), "low": 1.0})


def test_a_row_that_leaves_the_index_leaves_the_digest() -> None:
    one = replace_in_digest(NO_ROWS, None, DONE.hash)
    replaced = {PENDING.signature: PENDING.hash}
    assert rolled_digest(BOTH, [removal(PENDING.signature)], replaced) == one
    state = UnitSummary().as_state("dil/orders", [DONE], [PENDING.signature])
    assert UnitSummary.delta_of(state) == [
        DONE.as_json(),
        {"sig": PENDING.signature, "removed": True},
    ]
