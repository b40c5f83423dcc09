"""``ms.authentication``: which members go together; and how fast requests may follow."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from connectors.http import HttpConnector
from dil.model.authentication import Authentication
from dil.model.secret import Secret
from dil.model.section import RateLimit

KEY = "ms.authentication"
CLIENT = {
    "method": "oauth2",
    "grant": "client_credentials",
    "tokenUri": "https://login.example.com/token",
    "clientId": "dil",
    "clientSecret": "s3cret",
}
REFRESH = {
    "method": "oauth2",
    "grant": "refresh_token",
    "tokenUri": "https://login.example.com/token",
    "refreshToken": "r0",
}


def written(job_file, **properties: str) -> Authentication:
    job = job_file.load({name.replace("__", "."): text for name, text in properties.items()}).job
    return job.properties[KEY]


def test_a_key_for_a_header_and_one_for_the_query(job_file):
    header = written(job_file, ms__authentication='{"method":"ApiKey","name":"X-K","token":"t"}')
    query = written(
        job_file, ms__authentication='{"method":"apikey","name":"k","in":"QUERY","token":"t"}'
    )

    assert (header.location, header.name, header.token) == ("header", "X-K", Secret("t"))
    assert query.location == "query"


def test_tasks_get_no_secret_that_only_the_driver_needs(job_file):
    """It fetches the tokens, and tasks ask it for them."""
    job = job_file.load({KEY: json.dumps(CLIENT)}).job

    assert b"s3cret" in pickle.dumps(job)
    assert b"s3cret" not in pickle.dumps(HttpConnector.for_tasks(job))


def test_client_credentials_with_everything(job_file, monkeypatch):
    members = {
        **CLIENT,
        "clientId": "env:CLIENT",
        "clientSecret": "env:SECRET",
        "scope": "a b",
        "audience": "crm",
        "clientAuthentication": "Body",
        "parameters": {"resource": 5, "client_assertion": "x.y.z", "key": "env:SECRET"},
        "expiryMarginSeconds": "90",
    }
    job = job_file.load({KEY: json.dumps(members)}, environ={"CLIENT": "c", "SECRET": "s"}).job
    found = job.properties[KEY]

    assert (found.client_id, found.client_secret) == (Secret("c"), Secret("s"))
    assert (found.scope, found.audience, found.client_authentication) == ("a b", "crm", "body")
    assert found.parameters == {
        "resource": "5",
        "client_assertion": Secret("x.y.z"),
        "key": Secret("s"),
    }
    assert found.expiry_margin_s == 90
    assert found.is_fetched


def test_the_file_of_the_refresh_token_is_beside_the_job_file(job_file):
    members = {**REFRESH, "refreshToken": None, "refreshTokenFile": "tokens/crm"}
    found = written(job_file, ms__authentication=json.dumps(members))

    assert Path(found.refresh_token_file) == job_file.folder / "tokens" / "crm"
    assert found.refresh_token is None


def test_the_password_grant_takes_user_and_password_of_the_source(job_file):
    members = {"method": "oauth2", "grant": "password", "tokenUri": "https://login.example.com/t"}
    user = {"source.conn.username": "ann", "source.conn.password": "p"}

    assert job_file.load({KEY: json.dumps(members), **user}).job
    (missing,) = job_file.problems({KEY: json.dumps(members), "source.conn.username": "ann"})
    assert "source.conn.password" in missing.what


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:1", "[::1]:80"])
def test_plain_http_is_for_this_machine(job_file, host):
    assert job_file.load({KEY: json.dumps({**CLIENT, "tokenUri": f"http://{host}/token"})}).job


def without(members: dict, *names: str) -> dict:
    return {name: value for name, value in members.items() if name not in names}


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"method": "apikey", "token": "t"}, 'lacks the member "name"'),
        ({"method": "apikey", "name": "k"}, 'lacks the member "token"'),
        ({"method": "apikey", "name": "k", "token": "t", "in": "body"}, 'in is "body"'),
        (
            {"method": "apikey", "name": "k", "token": "t", "header": "x"},
            'has "header", which method apikey does not use',
        ),
        (
            {"method": "apikey", "name": "k", "token": "t", "encryption": "base64"},
            "encryption does not go with method apikey",
        ),
        (
            {"method": "bearer", "encryption": "none", "token": "t", "scope": "s"},
            'has "scope", which method bearer does not use',
        ),
        (without(CLIENT, "grant"), 'lacks the member "grant"'),
        (without(CLIENT, "tokenUri"), 'lacks the member "tokenUri"'),
        (without(CLIENT, "clientId"), 'lacks the member "clientId"'),
        (without(CLIENT, "clientSecret"), 'lacks the member "clientSecret"'),
        ({**CLIENT, "token": "t"}, 'has "token", which method oauth2 does not use'),
        ({**CLIENT, "refreshToken": "r"}, 'has "refreshToken", which grant client_credentials'),
        ({**CLIENT, "grant": "authorization_code"}, 'grant is "authorization_code"'),
        ({**CLIENT, "clientSecrets": "x"}, 'unknown member "clientSecrets"'),
        ({**CLIENT, "tokenUri": "login.example.com"}, "tokenUri is no HTTP address"),
        ({**CLIENT, "tokenUri": "https://u:p@h/t"}, "tokenUri is no HTTP address"),
        ({**CLIENT, "tokenUri": "https://[::1/t"}, "tokenUri is no HTTP address"),
        ({**CLIENT, "tokenUri": "https://h/{{tenant}}/t"}, "tokenUri holds {{variables}}"),
        ({**CLIENT, "tokenUri": "http://login.example.com/t"}, "tokenUri begins with http://"),
        ({**CLIENT, "expiryMarginSeconds": -1}, "expiryMarginSeconds is too small"),
        ({**CLIENT, "parameters": {"a": ["b"]}}, 'parameters: "a" has no text'),
        ({**CLIENT, "parameters": "a=b"}, "parameters is no object"),
        (without(REFRESH, "refreshToken"), 'has neither "refreshToken" nor "refreshTokenFile"'),
        ({**REFRESH, "clientSecret": "s"}, 'has "clientSecret" and no "clientId"'),
        ({**REFRESH, "refreshTokenFile": "s3://b/k"}, "refreshTokenFile is on s3:"),
        ({**REFRESH, "refreshToken": "env:NOT_SET"}, "refreshToken names the environment variable"),
    ],
)
def test_members_that_do_not_go_together_are_told_at_the_start(job_file, members, told):
    found = job_file.problem(KEY, json.dumps(members))

    assert told in found.what
    assert found.origin.line


def test_no_problem_shows_a_secret(job_file):
    members = {**CLIENT, "tokenUri": "http://login.example.com", "refreshToken": "r3fresh"}
    text = "\n".join(map(str, job_file.problems({KEY: json.dumps(members)})))

    assert "s3cret" not in text
    assert "r3fresh" not in text


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [
        ("10/s", 10, 1),
        ("600/min", 600, 60),
        ("5000/h", 5000, 3600),
        ("100000/D", 100_000, 86_400),
        ("1/2s", 1, 2),
        ("100 / 15min", 100, 900),
    ],
)
def test_a_rate_is_requests_per_time(job_file, text, count, seconds):
    job = job_file.load({"ms.http.rate.limit": text}).job

    assert job.properties["ms.http.rate.limit"] == RateLimit(count, seconds)


@pytest.mark.parametrize("text", ["10", "10/", "/s", "0/s", "1/0s", "-1/s", "1.5/s", "10/week"])
def test_what_is_no_rate_is_told_with_examples(job_file, text):
    found = job_file.problem("ms.http.rate.limit", text)

    assert "is no rate" in found.what
    assert "600/min" in found.fix


def test_without_a_rate_there_is_none(job_file):
    properties = job_file.load().job.properties

    assert properties["ms.http.rate.limit"] is None
    assert properties["ms.http.requests.max"] == 0
