"""Which payload rows may be sent again when nobody knows whether they were taken."""

from __future__ import annotations

import pytest

from connectors.http.outgoing import build_outgoing
from connectors.http.settings import HttpSettings, repeats_rows
from dil.spi.connector import RequestValues

ROW = RequestValues({}, {}, payload={"id": 1}, idempotency_key="k")
URI = "https://r.test/rows"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (HttpSettings(URI, method="POST"), False),
        (HttpSettings(URI, method="PATCH"), False),
        (HttpSettings(URI, method="PUT"), True),
        (HttpSettings(URI, method="DELETE"), True),
        (HttpSettings(URI, method="POST", idempotency_header="Idempotency-Key"), True),
        (HttpSettings(URI, method="PATCH", repeats_unsafe=True), True),
    ],
    ids=lambda value: value.method if isinstance(value, HttpSettings) else "",
)
def test_a_job_and_each_of_its_requests_agree_on_repeating(
    settings: HttpSettings, expected: bool
) -> None:
    assert repeats_rows(settings) is expected
    assert build_outgoing(settings, ROW).is_repeatable is expected
