"""Texts of the command line become values, or errors that say what to write."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.cli.arguments import parse_definitions, parse_now
from dil.errors import ConfigError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2024-03-05T00:00:00Z", 1709596800000),
        ("2024-03-05T00:00:00.123456Z", 1709596800123),
        ("2024-03-05T00:00:00-08:00", 1709625600000),
        ("20240305T000000+0000", 1709596800000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_an_instant_with_a_zone_is_read_exactly(text: str, millis: int) -> None:
    assert parse_now(text) == millis


@pytest.mark.parametrize("text", ["2024-03-05", "2024-03-05T10:00:00", "20240305"])
def test_an_instant_without_a_zone_is_refused_with_the_text_to_write(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_now(text)

    assert caught.value.problems[0].key == "--now"
    assert "Add Z" in caught.value.problems[0].fix


@pytest.mark.parametrize("text", ["", "now", "1709596800000", "2024-13-01T00:00:00Z"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_now(text)


@settings(max_examples=50, deadline=None)
@given(millis=st.integers(-(10**13), 10**14), hours=st.integers(-14, 14))
def test_every_millisecond_is_read_back_from_any_offset(millis: int, hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    moment = (EPOCH + timedelta(milliseconds=millis)).astimezone(zone)

    assert parse_now(moment.isoformat()) == millis


def test_a_definition_keeps_everything_behind_the_first_equals_sign() -> None:
    assert parse_definitions(["a=b=c", " k =v ", "k=w"]) == {"a": "b=c", "k": "w"}


@pytest.mark.parametrize("definition", ["key", "=value", " =value"])
def test_a_definition_without_a_key_or_equals_sign_is_refused(definition: str) -> None:
    with pytest.raises(ConfigError):
        parse_definitions([definition])
