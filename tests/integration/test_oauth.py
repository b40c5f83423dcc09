"""Tokens and rates on Spark: one token for tasks in many processes, one rate, a clean end.

The tokens of the last tests come from an OAuth2 server that this project did not write.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

from connectors.http.oauth import OAuthSource
from connectors.http.settings import HttpSettings
from dil.model.authentication import Authentication
from dil.model.job import KeySpec
from dil.model.secret import Secret
from tests.integration.dil_processes import run
from tests.jobs import published_ids, visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.third_party import oauth2_server
from tests.servers.token_server import CLIENT, CLIENT_SECRET, TokenServer

NOW = "2020-01-05T00:00:00Z"  # four days, two units: eight work units


@pytest.fixture
def source() -> Iterator[HttpServer]:
    with HttpServer(Dataset.generate(40, units=("a", "b"), step_ms=DAY_MS // 10)) as running:
        yield running


def oauth2(uri: str, **members: object) -> str:
    client = {"clientId": CLIENT, "clientSecret": CLIENT_SECRET}
    facts = {"method": "oauth2", "grant": "client_credentials", "tokenUri": uri, **client}
    return json.dumps({**facts, **members})


def report_of(done: subprocess.CompletedProcess[str], exit_code: int = 0) -> dict:
    assert done.returncode == exit_code, done.stderr
    report: dict = json.loads(done.stdout)
    return report


@pytest.mark.spark
def test_tasks_in_many_processes_share_one_token_which_no_output_shows(
    tmp_path: Path, source: HttpServer
) -> None:
    with TokenServer(issued=lambda token: setattr(source.state, "token", token)) as server:
        job = write_job(tmp_path, source.url, ms__authentication=oauth2(server.url))
        done = run(job, NOW, "--verbose")

    assert report_of(done)["rows"] == 80
    assert len(server.forms) == 1
    assert "access-1" not in done.stderr + done.stdout
    assert CLIENT_SECRET not in done.stderr + done.stdout


@pytest.mark.spark
def test_the_rate_holds_over_all_tasks(tmp_path: Path, source: HttpServer) -> None:
    job = write_job(tmp_path, source.url, ms__http__rate__limit="5/s")
    report = report_of(run(job, NOW))
    sent = sorted(entry.at for entry in source.requests)

    assert report["rows"] == 80
    assert len(sent) == 8
    # Seven intervals of 0.2 s; what the network and a busy machine add only makes it longer.
    assert sent[-1] - sent[0] > 1.3


@pytest.mark.spark
def test_a_spent_budget_begins_no_more_work_units_and_keeps_what_is_done(
    tmp_path: Path, source: HttpServer
) -> None:
    changes = {
        "ms__http__requests__max": "3",
        "job__commit__policy": "successful",
        "taskexecutor__threadpool__size": "2",
    }
    job = write_job(tmp_path, source.url, **changes)
    report = report_of(run(job, NOW), exit_code=4)

    assert report["work_units"]["succeeded"] == 3
    assert {failure["code"] for failure in report["failures"]} == {"DIL-QUOTA"}
    assert report["work_units"]["not_started"] > 0
    assert sum(published_ids(visible_files(tmp_path)).values()) == 30
    report_of(run(job, NOW, "-D", "ms.http.requests.max=0"))
    assert sum(published_ids(visible_files(tmp_path)).values()) == 80
    assert source.count("/records") == 8


# A server of others


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with oauth2_server(tmp_path_factory.mktemp("oauth2-mock-server")) as server:
        yield server.url


def claims(token: str, url: str) -> dict:
    """Return what a signed token says, its signature checked with the server's published key."""
    head, body, signature = token.split(".")
    kid = json.loads(_decoded(head))["kid"]
    keys = requests.get(f"{url}/jwks", timeout=10).json()["keys"]
    key = next(each for each in keys if each["kid"] == kid)
    numbers = [int.from_bytes(_decoded(key[name])) for name in ("e", "n")]
    public = RSAPublicNumbers(*numbers).public_key()
    public.verify(_decoded(signature), f"{head}.{body}".encode(), PKCS1v15(), hashes.SHA256())
    found: dict = json.loads(_decoded(body))
    return found


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize(
    ("grant", "members"),
    [
        ("client_credentials", {"scope": "read"}),
        ("password", {"scope": "read", "client_authentication": "body"}),
        ("refresh_token", {"refresh_token": Secret("any")}),
    ],
)
def test_a_server_of_others_grants_a_token(foreign: str, grant: str, members: dict) -> None:
    authentication = Authentication(
        method="oauth2",
        grant=grant,
        token_uri=f"{foreign}/token",
        client_id=CLIENT,
        client_secret=Secret(CLIENT_SECRET),
        **members,
    )
    settings = HttpSettings(
        uri="https://h/x", authentication=authentication, username=Secret("u"), password=Secret("p")
    )
    found = OAuthSource(settings, KeySpec()).fetch()

    assert claims(found.token.reveal(), foreign)["iss"].startswith("http://")
    assert found.lifetime_s == 3600


@pytest.mark.spark
def test_a_job_shows_its_source_a_token_of_the_other_server(
    tmp_path: Path, source: HttpServer, foreign: str
) -> None:
    members = oauth2(f"{foreign}/token", scope="read")
    job = write_job(tmp_path, source.url, ms__authentication=members)
    report = report_of(run(job, NOW))
    shown = {entry.headers["Authorization"] for entry in source.requests}

    assert report["rows"] == 80
    assert len(shown) == 1
    assert claims(shown.pop().removeprefix("Bearer "), foreign)["scope"] == "read"
