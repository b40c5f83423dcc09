"""What answers say of a source's rate limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from connectors.http.waits import is_rate_limited, retry_after_s

NOW = 1_577_836_800.0  # 2020-01-01T00:00:00Z
DATE = {"Date": "Wed, 01 Jan 2020 00:01:00 GMT"}


def asked(**headers):
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return retry_after_s(CaseInsensitiveDict(named), NOW)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry_After": "7"}, 7.0),
        ({"retry_after": " 0.5 "}, 0.5),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "-5"}, None),
        ({"Retry_After": ""}, None),
        ({"Retry_After": "Wed, 01 Jan 2020 00:02:00 GMT"}, 120.0),
        ({"Retry_After": "Wed, 01 Jan 2020 00:02:00 GMT", **DATE}, 60.0),
        ({"Retry_After": "Tue, 31 Dec 2019 00:02:00 GMT"}, 0.0),
        ({"Retry_After": "1577836830"}, 30.0),
        ({"RateLimit_Reset": "30"}, 30.0),
        ({"X_RateLimit_Reset": "30"}, 30.0),
        ({"X_RateLimit_Reset": "1577836890", **DATE}, 30.0),
        ({"X_RateLimit_Reset": "1577836890000", **DATE}, 30.0),
        ({"X_RateLimit_Reset": "2020-01-01T00:00:30Z"}, 30.0),
        ({"X_RateLimit_Reset": "2020-01-01T00:02Z", **DATE}, 60.0),
        ({"X_RateLimit_Reset": "2020-01-01T00:00:30"}, None),
        ({"X_Rate_Limit_Reset": "30"}, 30.0),
        ({"RateLimit": "limit=100, remaining=0, reset=30"}, 30.0),
        ({"RateLimit": '"default";r=0;t=30'}, 30.0),
        ({"RateLimit": '"default";r=12;t=30'}, None),
        ({"RateLimit": '"burst";r=10;t=1, "hour";r=0;t=90, "day";r=0;t=300'}, 300.0),
        ({"RateLimit": '"burst";r=10;t=1, "day";r=3;t=300'}, None),
        ({"RateLimit_Reset": "30", "RateLimit_Remaining": "0"}, 30.0),
        ({"RateLimit_Reset": "30", "RateLimit_Remaining": "12"}, None),
        ({"RateLimit_Reset": "30", "Retry_After": "7"}, 7.0),
        ({"RateLimit_Reset": "30", "X_RateLimit_Remaining": "12", "Retry_After": "7"}, 7.0),
        ({"Retry_After": "9" * 20}, 315_360_000.0),
    ],
)
def test_the_wait_that_an_answer_asks_for(headers, seconds):
    assert asked(**headers) == seconds


@given(
    name=st.sampled_from(["Retry-After", "RateLimit-Reset", "X-RateLimit-Reset", "RateLimit"]),
    text=st.text() | st.from_regex(r"\A[0-9., +-]{0,40}\Z"),
)
def test_whatever_a_source_writes_there_the_wait_is_finite_and_not_negative(name, text):
    seconds = retry_after_s(CaseInsensitiveDict({name: text}), NOW)
    assert seconds is None or 0 <= seconds <= 315_360_000


@pytest.mark.parametrize(
    ("status", "headers", "is_limit"),
    [
        (429, {}, True),
        (403, {}, False),
        (403, {"X-RateLimit-Remaining": "0"}, True),
        (403, {"X-RateLimit-Remaining": "4999"}, False),
        (403, {"X-RateLimit-Remaining": "4999", "Retry-After": "60"}, True),
        (403, {"Retry-After": "soon"}, False),
        (403, {"RateLimit": "limit=100, remaining=0, reset=30"}, True),
        (403, {"RateLimit": "limit=100;w=60, remaining=0, reset=30"}, True),
        (403, {"RateLimit": '"burst";r=10;t=1, "day";r=0;t=300'}, True),
        (403, {"RateLimit": '"burst";r=10;t=1, "day";r=3;t=300'}, False),
        (401, {"X-RateLimit-Remaining": "0"}, False),
        (503, {"X-RateLimit-Remaining": "0"}, False),
    ],
)
def test_which_refusals_mean_a_rate_limit(status, headers, is_limit):
    assert is_rate_limited(status, CaseInsensitiveDict(headers)) is is_limit
