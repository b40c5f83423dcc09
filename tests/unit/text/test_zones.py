"""Instants as people read them."""

from __future__ import annotations

import pytest

from dil.text.zones import find_zone, moment


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
