"""What a request shows itself with: a header, or a member of the query."""

from __future__ import annotations

import pytest

from connectors.http.outgoing import authentication_header, authentication_query
from connectors.http.settings import HttpSettings
from dil.model.authentication import Authentication
from dil.model.secret import Secret

NONE: frozenset[str] = frozenset()


def settings(**members: object) -> HttpSettings:
    return HttpSettings(uri="https://h/x", authentication=Authentication(**members))


def test_a_job_without_authentication_shows_nothing():
    plain = HttpSettings(uri="https://h/x")

    assert authentication_header(plain, {}, None) == ("", "", NONE, NONE)
    assert authentication_query(plain, {}) == {}


@pytest.mark.parametrize(
    ("method", "value"),
    [("basic", "Basic t"), ("bearer", "Bearer t"), ("oauth", "OAuth t"), ("custom", "t")],
)
def test_the_four_methods_of_dil_write_one_header(method, value):
    job = settings(method=method, encryption="none", token=Secret("t"))

    assert authentication_header(job, {}, None) == ("Authorization", value, NONE, NONE)
    assert authentication_query(job, {}) == {}


def test_a_key_goes_into_a_header_of_its_name_with_variables_replaced():
    job = settings(method="apikey", name="X-Key", token=Secret("k-{{region}}-{{nope}}"))

    assert authentication_header(job, {"region": "eu"}, None) == (
        "X-Key",
        "k-eu-{{nope}}",
        frozenset({"region"}),
        frozenset({"nope"}),
    )
    assert authentication_query(job, {}) == {}


def test_a_key_in_the_query_is_in_no_header():
    job = settings(method="apikey", name="key", location="query", token=Secret("k&{{region}}"))

    assert authentication_query(job, {"region": "eu"}) == {"key": "k&eu"}
    assert authentication_header(job, {"region": "eu"}, None) == ("", "", NONE, NONE)


def test_a_fetched_token_is_sent_as_bearer_and_as_it_is():
    job = settings(method="oauth2", grant="client_credentials")

    assert authentication_header(job, {"x": "1"}, Secret("a{{x}}")) == (
        "Authorization",
        "Bearer a{{x}}",
        NONE,
        NONE,
    )


def test_a_fetched_token_goes_into_the_header_that_is_named():
    job = settings(method="oauth2", header="X-Token")

    assert authentication_header(job, {}, Secret("a"))[:2] == ("X-Token", "Bearer a")
