"""Advice about refused credentials names what gives them, and nothing that the job does not use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from tests.jobs import write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import Dataset

NOW = ("--now", "2020-01-03T00:00:00Z")
PARAMETERS = [{"name": "unit"}, {"name": "cursor", "type": "session"}]


@pytest.fixture
def source() -> Iterator[HttpServer]:
    with HttpServer(Dataset.generate(5, units=("a", "b"), step_ms=60_000)) as server:
        yield server


def with_input(folder: Path, token: str) -> dict[str, str]:
    """Return a job's properties that send a token of its authentication input."""
    (folder / "token.json").write_text(json.dumps({"access_token": token}))
    given = {"path": str(folder / "token.json"), "fields": ["access_token"]}
    return {"ms__secondary__input": json.dumps([{**given, "category": "authentication"}])}


def advice(
    folder: Path,
    source: HttpServer,
    capsys: pytest.CaptureFixture[str],
    *,
    status: int = 401,
    **changes: str,
) -> str:
    """Return what `dil check` prints where the source refuses the credentials."""
    source.faults.append(Fault("status", status=status))
    assert main(["check", str(write_job(folder, source.url, **changes)), *NOW]) == 1
    shown = capsys.readouterr().err
    assert "[DIL-SRC-AUTH]" in shown
    [line] = [each for each in shown.splitlines() if "credentials" in each]
    return line


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"ms__authentication": '{"method":"bearer","encryption":"","token":"t0p-s3cret"}'},
            {"ms.authentication"},
        ),
        (
            {
                "ms__authentication": '{"method":"basic","encryption":"base64"}',
                "source__conn__username": "me",
                "source__conn__password": "t0p-s3cret",
            },
            {"ms.authentication", "source.conn.username", "source.conn.password"},
        ),
        (
            {"ms__http__request__headers": '{"X-Api-Key":"t0p-s3cret","Accept":"text/csv"}'},
            {'header "X-Api-Key" of ms.http.request.headers'},
        ),
        (
            {"ms__parameters": json.dumps([*PARAMETERS, {"name": "api_key", "value": "t0p-s3c"}])},
            {'parameter "api_key" of ms.parameters'},
        ),
        ({}, {"The job sends no credentials"}),
    ],
)
def test_a_401_names_what_carried_the_credential_and_nothing_else(
    tmp_path: Path,
    source: HttpServer,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str],
    named: set[str],
) -> None:
    shown = advice(tmp_path, source, capsys, **changes)
    every = {
        "ms.authentication", "source.conn.username", "source.conn.password",
        "ms.http.request.headers", "ms.parameters", "ms.secondary.input", "X-Api-Key",
    }  # fmt: skip
    assert all(name in shown for name in named)
    if changes:
        allowed = " ".join(named)
        assert [name for name in every if name in shown and name not in allowed] == []


def test_a_401_names_the_address_that_has_the_key(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"{source.url}/records?api_key=t0p-s3cret"
    shown = advice(tmp_path, source, capsys, ms__source__uri=uri)
    assert "Check ms.source.uri (" in shown
    assert "t0p-s3cret" not in shown


def test_a_401_names_the_input_that_gave_the_token(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = '{"Authorization":"Bearer {{access_token}}"}'
    given = with_input(tmp_path, "t0p-s3cret")
    changes = {"ms__http__request__headers": headers, **given}
    shown = advice(tmp_path, source, capsys, status=403, **changes)  # a 401 waits for a new one
    assert "the authentication input of ms.secondary.input" in shown
    assert "ms.authentication" not in shown


@pytest.mark.parametrize(
    ("token", "changes", "named"),
    [
        (
            "t0p\ns3cret",
            {"ms__http__request__headers": '{"X-Token":"{{access_token}}"}'},
            "ms.secondary.input",
        ),
        (
            "t0p\ns3cret",
            {
                "ms__authentication": '{"method":"bearer","encryption":"",'
                '"token":"{{access_token}}"}'
            },
            "ms.secondary.input",
        ),
        (
            "x",
            {"ms__authentication": '{"method":"bearer","encryption":"","token":"t0p\\\\ns3cret"}'},
            "ms.authentication",
        ),
        (
            "x",
            {"ms__http__request__headers": '{"X-Token":"t0p\\\\ns3cret"}'},
            "ms.http.request.headers",
        ),
        (
            "x",
            {
                "ms__http__request__headers": '{"X-Token":"{{mark}}"}',
                "ms__parameters": json.dumps(
                    [*PARAMETERS, {"name": "mark", "value": "t0p\\ns3cret"}]
                ),
            },
            "ms.parameters",
        ),
    ],
)
def test_a_value_with_a_line_break_names_the_property_that_gives_it(
    tmp_path: Path,
    source: HttpServer,
    capsys: pytest.CaptureFixture[str],
    token: str,
    changes: dict[str, str],
    named: str,
) -> None:
    job = write_job(tmp_path, source.url, **with_input(tmp_path, token), **changes)
    assert main(["check", str(job), *NOW]) == 2
    shown = capsys.readouterr().err
    [line] = [each for each in shown.splitlines() if "with a line break" in each]
    assert f"{named} gives header " in line
    assert "s3cret" not in shown
