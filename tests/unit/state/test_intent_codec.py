"""Intents are read by other versions than the one that wrote them."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import StateError
from dil.model.dataset import (
    Commit,
    Intent,
    Move,
    OperatorAct,
    PublishedFile,
    RunWork,
    UnitEntry,
    UnitRows,
    WorkUnitOutcome,
)
from dil.model.derived import InputSlice, QueryStep
from dil.state.runs.intent_codec import decode_intent, encode_intent

GOLDEN = Path(__file__).parents[2] / "golden/state/intent-v1.json"

INTENT = Intent(
    commit=Commit(
        run_id="20240301T120000-7f3a",
        config_digest="0a" * 32,
        source_name="dil/orders",
        moves=(
            Move(
                "file:///data/orders/_staging/a.avro",
                PublishedFile(
                    "file:///data/orders/part-a.avro",
                    '[watermark.dt.1704067200000, watermark.u.{"id":"é/1"}]',
                    10,
                    700,
                    "ab" * 32,
                    "20240301T120000-7f3a",
                ),
            ),
        ),
        removes=(
            PublishedFile("file:///data/orders/part-0.avro", "[x]", 3, 21, "cd" * 32, "older"),
        ),
        run=RunWork(
            outcomes=(
                WorkUnitOutcome("[x]", "u.{}", 1704067200000, 1704153600000, 1704153600000, 1),
                WorkUnitOutcome(
                    "[y]", "u.{}", 1704153600000, 1704240000000, None, 5, "503", "20240102000000"
                ),
            ),
            left_low=1704240000000,
        ),
        schema='{"name":"orders","type":"record"}',
        system_time=1709294400000,
        horizon=1709294400001,
    ),
    token=7,
    dataset_dir="/data/orders",
    sequence=12,
)


def test_format_1_is_read_and_written_as_it_was() -> None:
    text = GOLDEN.read_text(encoding="utf-8").strip()
    assert decode_intent(text) == INTENT
    assert encode_intent(INTENT) == text


ACT = OperatorAct(
    "rewind", "the source was wrong",
    changed=(UnitEntry("[x]", 1, 2, None, "PENDING", 0, is_on_grid=True),),
    removed=("[y]",), watermark=5, sets_watermark=True,
)  # fmt: skip
GOLDEN_ACT = GOLDEN.with_name("intent-v1-act.json")


def test_an_operators_intent_is_read_and_written_as_it_was() -> None:
    intent = replace(INTENT, commit=replace(INTENT.commit, act=ACT))
    text = GOLDEN_ACT.read_text(encoding="utf-8").strip()
    assert decode_intent(text) == intent
    assert encode_intent(intent) == text


GOLDEN_UNITS = GOLDEN.with_name("intent-v3-units.json")


def test_an_intent_that_says_which_rows_are_whose_has_a_format_of_its_own() -> None:
    units = (UnitRows("[x]", 0, 3), UnitRows("[y]", 3, 4))
    shared = PublishedFile(
        "file:///data/orders/part-s.avro", "", 7, 70, "ef" * 32, "r", units=units
    )
    move = Move("file:///data/orders/_staging/s.avro", shared)
    commit = replace(INTENT.commit, moves=(*INTENT.commit.moves, move))
    intent = replace(INTENT, commit=commit, destination="file:///data/orders")
    text = GOLDEN_UNITS.read_text(encoding="utf-8").strip()
    assert decode_intent(text) == intent
    assert encode_intent(intent) == text
    assert json.loads(text)["format"] == 3


def test_an_intent_that_sets_checkpoints_is_refused_by_releases_that_would_drop_them() -> None:
    checkpoints = {"event_time": {"watermark": -5, "state": "é"}, "b": {"share": Decimal("0.10")}}
    intent = replace(INTENT, commit=replace(INTENT.commit, checkpoints=checkpoints))
    text = encode_intent(intent)
    assert decode_intent(text) == intent
    assert '"share":0.10' in text
    assert json.loads(text)["format"] == 4
    assert "checkpoints" not in encode_intent(INTENT)


def test_an_intent_that_forgets_work_units_is_refused_by_releases_that_would_keep_them() -> None:
    work = replace(INTENT.commit.run, forgotten=("[y]", "[é]"))
    intent = replace(INTENT, commit=replace(INTENT.commit, run=work))
    text = encode_intent(intent)
    assert decode_intent(text) == intent
    assert json.loads(text)["format"] == 7
    assert "forgotten" not in encode_intent(INTENT)


outcomes = st.builds(
    WorkUnitOutcome,
    signature=st.text(st.characters(exclude_categories=["Cs"])),
    unit_key=st.text(st.characters(exclude_categories=["Cs"])),
    low=st.integers(-(2**63), 2**63 - 1),
    expected_high=st.integers(-(2**63), 2**63 - 1),
    high=st.none() | st.integers(-(2**63), 2**63 - 1),
    attempts=st.integers(0, 9),
    timelabel=st.none() | st.text("0123456789", max_size=14),
)


@settings(max_examples=40)
@given(st.lists(outcomes, max_size=3), st.lists(outcomes, max_size=2), st.booleans())
def test_any_intent_survives_exactly(
    found: list[WorkUnitOutcome], skipped: list[WorkUnitOutcome], watermarks: bool
) -> None:
    work = RunWork(tuple(found), tuple(skipped), None, watermarks)
    commit = Commit("r", "d", "s", (), (), "", 1, 2, work)
    intent = Intent(commit, 1, "/d", 0)
    assert decode_intent(encode_intent(intent)) == intent


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format":2,"intent":{}}',
        '{"format":1,"intent":{}}',
        '{"format":99,"intent":{}}',
        json.dumps({**json.loads(encode_intent(INTENT)), "more": 1}),
    ],
)
def test_a_damaged_or_newer_intent_is_a_state_error_with_what_to_do(text: str) -> None:
    with pytest.raises(StateError) as caught:
        decode_intent(text)
    assert caught.value.fix


def test_an_intent_of_a_query_says_what_it_took_and_older_versions_refuse_it():
    step = QueryStep(
        '{"inputs":["orders"]}',
        (InputSlice("orders", None, "f1220aa", None, 0), InputSlice("more", "f1", None, 7, None)),
        "2024-01-01T00:00:00.000Z",
        "f1220bb",
    )
    intent = replace(INTENT, commit=replace(INTENT.commit, query=step))

    text = encode_intent(intent)

    assert json.loads(text)["format"] == 5
    assert decode_intent(text) == intent
    assert "query" not in json.loads(encode_intent(INTENT))["intent"]["commit"]
