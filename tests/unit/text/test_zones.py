"""Instants as people read them."""

from __future__ import annotations

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
    ],
)
def test_an_unknown_zone_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    assert zone_fix(wrong).startswith(f'Did you mean "{near}"? ')


def test_a_zone_that_is_near_to_none_is_answered_with_an_example() -> None:
    assert zone_fix("xyzzy-plugh-42") == "Use a region id such as Europe/Paris, or UTC."
