"""Secrets that are written out in a job file are noted once, with the reference to use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dil import config
from dil.errors import ConfigError
from tests.jobs import write_job

TOKEN = "t0p-s3cret"


def notes(folder: Path, **changes: str) -> list[str]:
    """Return what is noted of secrets in plain text."""
    job = write_job(folder, "https://api.example.com", **changes)
    loaded = config.load(str(job), environ={"API_TOKEN": TOKEN})
    assert TOKEN not in str(loaded.notices)
    return [
        str(each)
        for each in loaded.notices
        if "plain text" in each.what and each not in loaded.infos
    ]


def bearer(token: str) -> str:
    return json.dumps({"method": "bearer", "encryption": "", "token": token})


def test_all_of_a_job_are_noted_at_once_with_the_command_that_encrypts(tmp_path: Path) -> None:
    [note] = notes(
        tmp_path,
        ms__authentication=bearer(TOKEN),
        ms__http__request__headers=json.dumps({"X-Api-Key": TOKEN, "Accept": "text/csv"}),
        source__conn__username="me",
        source__conn__password=TOKEN,
    )
    for key in ("ms.authentication", "ms.http.request.headers", "source.conn.password"):
        assert key in note
    assert "username" not in note
    assert "env:NAME, file:PATH" in note
    assert "dil secrets encrypt --key FILE --for " in note


@pytest.mark.parametrize(
    ("url", "count"),
    [
        (f"postgresql://me:{TOKEN}@db.test:5432/shop", 1),
        ("postgresql://me@db.test:5432/shop", 0),
        ("sqlite:///somewhere/shop.db", 0),
    ],
)
def test_an_address_is_noted_where_it_has_a_password(tmp_path: Path, url: str, count: int) -> None:
    assert len(notes(tmp_path, ms__warehouse__url=url)) == count


@pytest.mark.parametrize("member", ["api_key", "apikey", "access_token", "sig", "X-Api-Key"])
def test_a_credential_in_the_address_is_noted_with_the_parameter_that_sends_it(
    tmp_path: Path, member: str
) -> None:
    uri = f"https://api.example.com/v1?limit=3&{member}={TOKEN}"
    [note] = notes(tmp_path, ms__source__uri=uri)
    assert "ms.source.uri holds a secret in plain text" in note
    assert '{"name": "api_key", "value": "env:NAME"}' in note
    assert "ENC(" not in note


@pytest.mark.parametrize("place", ["me:{}@proxy.test", "http://me:{}@proxy.test"])
def test_a_password_of_the_proxy_is_noted(tmp_path: Path, place: str) -> None:
    proxy = {"source__conn__use__proxy__url": place.format(TOKEN)}
    [note] = notes(tmp_path, **proxy, source__conn__use__proxy__port="3128")
    assert "source.conn.use.proxy.url holds a secret in plain text" in note
    assert "Write user:${env:NAME}@host for the proxy" in note
    assert "ENC(" not in note


def test_a_password_in_the_address_is_noted(tmp_path: Path) -> None:
    [note] = notes(tmp_path, ms__source__uri=f"https://me:{TOKEN}@api.example.com/v1")
    assert "ms.source.uri holds a secret" in note


@pytest.mark.parametrize("value", [f'"{TOKEN}"', f'["{TOKEN}", "env:API_TOKEN"]'])
def test_a_parameter_named_as_a_credential_is_noted(tmp_path: Path, value: str) -> None:
    given = f'[{{"name": "api_key", "value": {value}}}, {{"name": "cursor", "type": "session"}}]'
    [note] = notes(tmp_path, ms__parameters=given)
    assert "ms.parameters holds a secret" in note
    assert "env:NAME, file:PATH" in note


@pytest.mark.parametrize(
    "changes",
    [
        {"ms__source__uri": "https://api.example.com/v1?key=country&token={{cursor}}&secret="},
        {"ms__source__uri": "https://api.example.com/v1?page_token=3&keyword=secret"},
        {"ms__source__uri": "https://api.example.com/v1?api_key=${env:API_TOKEN}"},
        {
            "ms__parameters": '[{"name": "api_key", "value": "env:API_TOKEN"},'
            ' {"name": "key", "value": "country"}, {"name": "token", "type": "session"}]'
        },
        {"source__conn__username": "me"},
        {"ms__authentication": bearer("env:API_TOKEN")},
        {"ms__authentication": bearer("${env:API_TOKEN}")},
        {"ms__http__request__headers": '{"Accept": "text/csv"}'},
    ],
)
def test_references_and_names_of_users_are_not_noted(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    assert notes(tmp_path, **changes) == []


def test_a_token_that_an_input_brings_is_not_written_out(tmp_path: Path) -> None:
    brings = [{"path": "/lake/token", "fields": ["access_token"], "category": "authentication"}]
    token = bearer("{{access_token}}")
    changes = {"ms__authentication": token, "ms__secondary__input": json.dumps(brings)}
    assert notes(tmp_path, **changes) == []


@pytest.mark.parametrize(
    ("reader", "statement", "is_noted"),
    [
        ("spark", "select 1 as id where 'x' = {{token}}", True),
        ("spark", "select 1 as id where 'x' = {{field}}", True),
        ("spark", "select 1 as id", False),
        ("driver", "select 1 as id where 'x' = {{token}}", False),
    ],
)
def test_a_secret_that_spark_would_keep_in_a_query_is_a_warning(
    tmp_path: Path, reader: str, statement: str, is_noted: bool
) -> None:
    job = write_job(
        tmp_path,
        "https://api.example.com",
        source__class="jdbc",
        ms__source__uri="jdbc:postgresql://localhost/db",
        ms__jdbc__reader=reader,
        ms__jdbc__statement=statement,
        ms__parameters='[{"name":"token","value":"env:API_TOKEN"}]',
        ms__secondary__input='[{"path":"rows","fields":["field"],"category":"authentication"}]',
        ms__data__field="",
    )
    loaded = config.load(str(job), environ={"API_TOKEN": TOKEN})
    found = [each for each in loaded.notices if "event log" in each.what]
    assert bool(found) == is_noted
    assert TOKEN not in str(loaded.notices)
    assert all(each not in loaded.infos for each in found)


def test_a_text_that_nearly_begins_like_a_reference_is_asked_about(tmp_path: Path) -> None:
    [note] = notes(tmp_path, source__conn__password=f"ENV:{TOKEN}")
    assert 'its beginning is nearly "env:"' in note


def test_a_resolver_that_is_missing_lets_no_reference_pass_for_a_secret(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        notes(
            tmp_path, source__conn__password=f"vault:{TOKEN}", ms__secret__resolvers="vault=no.Such"
        )
    assert not any("plain text" in notice.what for notice in refused.value.notices)


def test_no_notice_follows_from_a_value_that_could_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        notes(
            tmp_path,
            ms__event__column="updated_ms",
            ms__event__watermark="adaptve",
            ms__late__after__close="reopen",
            ms__timelabel__close="aut",
            ms__output__file__per__work__unit="true",
            ms__warehouse__user="me",
        )
    wrong = {"ms.event.watermark", "ms.timelabel.close"}
    assert {problem.key for problem in refused.value.problems} == wrong
    (notice,) = [each for each in refused.value.notices if each.key == "ms.warehouse.user"]
    assert "has no effect" in notice.what
    assert not any(key in str(each) for key in wrong for each in refused.value.notices)
