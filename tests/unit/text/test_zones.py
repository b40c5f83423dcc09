"""Instants as people read them."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from dil.text.zones import find_zone, moment, zone_fix


@pytest.mark.parametrize(
    ("ms", "zone", "expected"),
    [
        (0, "UTC", "1970-01-01 00:00+00:00"),
        (1_000, "+05:30", "1970-01-01 05:30:01+05:30"),
        (1, "UTC", "1970-01-01 00:00:00.001+00:00"),
        (10**17, "UTC", f"{10**17} ms"),
    ],
)
def test_moments_are_no_finer_than_needed(ms: int, zone: str, expected: str) -> None:
    assert moment(ms, find_zone(zone)) == expected


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("America/Los_Angelos", "America/Los_Angeles"),
        ("america/new_york", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("Los_Angeles", "America/Los_Angeles"),
        ("Tokio", "Asia/Tokyo"),
        ("UTZ", "UTC"),
        ("GTM", "GMT"),
    ],
)
def test_an_unknown_zone_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    assert zone_fix(wrong).startswith(f'Did you mean "{near}"? ')


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("GMT+1", "Write +01:00, or Etc/GMT-1, whose sign is turned."),
        ("UTC-05", "Write -05:00, or Etc/GMT+5, whose sign is turned."),
        ("gmt+5:30", "Write +05:30."),
    ],
)
def test_an_offset_behind_a_name_is_answered_with_the_offset(wrong: str, right: str) -> None:
    assert zone_fix(wrong).startswith(right)
    words = re.findall(r"[+-][0-9:]{5}|Etc/[A-Z0-9+-]+", right)
    at = datetime(2024, 1, 1)  # noqa: DTZ001 - zones are asked
    assert len({find_zone(word).utcoffset(at) for word in words}) == 1


def test_a_zone_that_is_near_to_none_is_answered_with_an_example() -> None:
    assert zone_fix("xyzzy-plugh-42") == "Use a region id such as Europe/Paris, or UTC."
