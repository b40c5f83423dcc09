import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.on_demand import OnDemand
from dil.state.blocks.canonical import (
    canonical,
    instant_of,
    is_system_time,
    is_watermark,
    key_hash,
    system_time_text,
    watermark_text,
)


def test_canonical_json_sorts_by_code_point_and_escapes_nothing_it_need_not() -> None:
    value = {"z": [1, True, None], "é": "ü\n\u2028", "Z": {}, "\U0001f600": 2**63 - 1}
    assert canonical(value).decode() == (
        '{"Z":{},"z":[1,true,null],"é":"ü\\n\u2028","\U0001f600":9223372036854775807}'
    )


@pytest.mark.parametrize("value", [1.0, {"a": [{"b": 0.5}]}])
def test_a_fraction_anywhere_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical(value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("aé\U0001f600", max_size=3), inner),
    max_leaves=10,
)


@given(_json, st.sampled_from([0, 1, 255, 256, 257, 600]))
def test_the_pieces_of_any_value_are_its_canonical_text(value: object, times: int) -> None:
    whole = {"b": [value] * times, "a": value}
    on_demand = {"b": OnDemand(lambda place: value, range(times)), "a": value}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical(whole) == canonical(on_demand) == text.encode()


def test_instants_have_exactly_six_or_three_digits() -> None:
    assert system_time_text(1_704_067_200_000) == "2024-01-01T00:00:00.000000Z"
    assert system_time_text(1_704_067_200_007) == "2024-01-01T00:00:00.007000Z"
    assert watermark_text(1_704_067_200_070) == "2024-01-01T00:00:00.070Z"
    assert watermark_text(-1) == "1969-12-31T23:59:59.999Z"


@settings(max_examples=50)
@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_instants_survive_their_text_and_sort_like_it(instant: int) -> None:
    assert instant_of(watermark_text(instant)) == instant
    assert instant_of(system_time_text(instant)) == instant
    assert watermark_text(instant) >= watermark_text(-62_135_596_800_000)


def test_a_local_time_is_no_instant() -> None:
    with pytest.raises(ValueError, match="not a UTC instant"):
        instant_of("2024-01-01T00:00:00+00:00")


def test_keys_are_the_sha_256_of_the_text() -> None:
    assert key_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("2024-01-01T00:00:00.000000Z", "system time"),
        ("2024-01-01T00:00:00.000Z", "watermark"),
        ("2024-01-01T00:00:00Z", ""),
        ("2024-01-01 00:00:00.000Z", ""),
        ("2024-02-30T00:00:00.000Z", ""),
        ("2024-01-01T00:00:00.000000+00:00", ""),
        ("\u0662\u0660\u0662\u0664-01-01T00:00:00.000Z", ""),
        ("2024-01-01T00:00:00.000Z\n", ""),
    ],
)
def test_only_texts_that_sort_like_their_instant_are_times(text: str, kinds: str) -> None:
    found = ["system time"] * is_system_time(text) + ["watermark"] * is_watermark(text)
    assert found == ([kinds] if kinds else [])
