"""Tokens from an authorization server: the grants, the client, errors, rotation, other runs."""

from __future__ import annotations

import logging
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.http.oauth import OAuthSource
from connectors.http.settings import HttpSettings, SessionEnvironment
from dil.errors import AuthenticationError, TransientSourceError
from dil.model.authentication import Authentication
from dil.model.job import KeySpec
from dil.model.secret import Secret
from dil.secrets import SecretResolver, learned
from tests.servers.token_server import (
    CLIENT,
    CLIENT_SECRET,
    FIRST_REFRESH,
    PASSWORD,
    USER,
    TokenServer,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer() as running:
        yield running


def source(
    server: TokenServer,
    *,
    keys: KeySpec | None = None,
    waits: list | None = None,
    **members: object,
) -> OAuthSource:
    """Return a source; its waits take no time and are written down."""
    given: dict[str, object] = {
        "grant": "client_credentials",
        "token_uri": server.url,
        "client_id": CLIENT,
        "client_secret": Secret(CLIENT_SECRET),
        **members,
    }
    settings = HttpSettings(
        uri="https://api.example.com/x",
        authentication=Authentication(method="oauth2", **given),
        username=Secret(USER),
        password=Secret(PASSWORD),
    )
    slept = [] if waits is None else waits
    around = SessionEnvironment(
        sleep=slept.append, chance=lambda: 0.5, wall_clock=lambda: 0.0, monotonic=lambda: 0.0
    )
    return OAuthSource(settings, keys or KeySpec(), around)


def refreshing(server: TokenServer, path: Path | None = None, **members: object) -> OAuthSource:
    given: dict[str, object] = {"grant": "refresh_token", **members}
    if path is not None:
        given["refresh_token_file"] = str(path)
    return source(server, **given)


def test_client_credentials_give_a_token_and_its_lifetime(server):
    found = source(server, scope="read write", audience="crm", expiry_margin_s=5).fetch()

    assert (found.token, found.lifetime_s, found.margin_s) == (Secret("access-1"), 3600.0, 5.0)
    assert server.forms == [
        {"grant_type": "client_credentials", "scope": "read write", "audience": "crm"}
    ]
    assert server.headers[0]["Accept"] == "application/json"


def test_more_members_of_the_form_are_sent_secrets_among_them(server):
    source(server, parameters={"resource": "r", "assertion": Secret("a&b")}).fetch()

    assert server.forms[0]["resource"] == "r"
    assert server.forms[0]["assertion"] == "a&b"


def test_the_client_is_in_the_header_or_in_the_form(server):
    source(server).fetch()
    source(server, client_authentication="body").fetch()

    assert server.headers[0]["Authorization"].startswith("Basic ")
    assert "client_secret" not in server.forms[0]
    assert "Authorization" not in server.headers[1]
    assert server.forms[1]["client_secret"] == CLIENT_SECRET


def test_the_client_s_name_is_encoded_before_it_is_joined_with_its_secret(server):
    with pytest.raises(AuthenticationError):
        source(server, client_id="a:b c", client_secret=Secret("é/+")).fetch()

    # base64 of a%3Ab+c:%C3%A9%2F%2B (RFC 6749 section 2.3.1)
    assert server.headers[0]["Authorization"] == "Basic YSUzQWIrYzolQzMlQTklMkYlMkI="


def test_a_client_without_a_secret_only_names_itself(server):
    with pytest.raises(AuthenticationError):
        source(server, grant="password", client_secret=None).fetch()

    assert server.forms[0]["client_id"] == CLIENT
    assert "Authorization" not in server.headers[0]


def test_the_password_grant_sends_user_and_password(server):
    assert source(server, grant="password").fetch().token == Secret("access-1")
    assert server.forms[0]["username"] == USER
    assert server.forms[0]["password"] == PASSWORD


@pytest.mark.parametrize(
    ("written", "understood"),
    [("600", 600.0), (600.5, 600.5), (None, None), ("soon", None), (0, None), (True, 1.0)],
)
def test_a_lifetime_is_read_as_servers_write_it(server, written, understood):
    server.lifetime_s = written

    assert source(server).fetch().lifetime_s == understood


# Refusals


def test_a_refusal_shows_the_server_s_words_and_what_to_do(server):
    with pytest.raises(AuthenticationError) as caught:
        source(server, client_secret=Secret("wr0ng-secret")).fetch()

    assert "HTTP status 400, invalid_client: who is that?" in caught.value.message
    assert "ms.authentication, and its clientAuthentication" in caught.value.fix
    assert "wr0ng" not in str(caught.value)


def test_what_was_sent_in_secret_is_masked_where_a_server_repeats_it(server):
    server.refresh_token = "another"
    with pytest.raises(AuthenticationError) as caught:
        refreshing(server, refresh_token=Secret("spent-refresh-token")).fetch()

    assert "invalid_grant: no: ***" in caught.value.message
    assert "authorize the client again" in caught.value.fix


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>login</html>", "HTTP status 200, and no JSON object"),
        (b'{"token":"x"}', "HTTP status 200, without an access_token"),
        (b'{"access_token":""}', "without an access_token"),
        (b'{"access_token":17}', "without an access_token"),
    ],
)
def test_an_answer_without_a_token_is_a_refusal(server, body, told):
    server.replies.append((200, {}, body))
    with pytest.raises(AuthenticationError, match=told):
        source(server).fetch()


def test_secrets_are_not_sent_after_a_redirect(server):
    server.replies.append((307, {"Location": server.url}, b""))
    with pytest.raises(AuthenticationError, match="HTTP status 307"):
        source(server).fetch()

    assert len(server.forms) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_may_pass_is_asked_for_again(server, status):
    waits: list[float] = []
    server.replies += [(status, {}, b"later"), (status, {"Retry-After": "7"}, b"later")]

    assert source(server, waits=waits).fetch().token == Secret("access-1")
    assert waits == [1.0, 7.0]


@pytest.mark.parametrize(
    "reply",
    [
        (200, {}, b'{"error": "temporarily_unavailable", "error_description": "Come later"}'),
        (400, {}, b'{"error": "server_error", "error_description": "Come later"}'),
        (403, {"Retry-After": "1"}, b'{"error": "limited", "error_description": "Come later"}'),
    ],
)
def test_an_outage_under_the_status_of_a_refusal_is_no_refusal(server, reply):
    waits: list[float] = []
    server.replies.append(reply)
    assert source(server, waits=waits).fetch().token == Secret("access-1")
    assert waits == [1.0]

    server.replies += [reply] * 9
    with pytest.raises(TransientSourceError, match="Come later"):
        source(server).fetch()


def test_asking_again_has_an_end(server):
    waits: list[float] = []
    server.replies += [(503, {}, b"later")] * 9
    with pytest.raises(TransientSourceError, match="HTTP status 503 after 3 retries") as caught:
        source(server, waits=waits).fetch()

    assert len(server.forms) == 4
    assert "tokenUri of ms.authentication" in caught.value.fix


def test_a_server_that_is_gone_is_an_outage_and_no_refusal(server):
    gone = source(server, token_uri="http://127.0.0.1:1/token")
    with pytest.raises(TransientSourceError, match="connection refused after 3 retries") as caught:
        gone.fetch()
    assert "tokenUri of ms.authentication" in caught.value.fix
    assert "ms.source.uri" not in caught.value.fix


# Refresh tokens


def test_a_refresh_token_gives_a_token_as_often_as_it_is_asked(server):
    tokens = refreshing(server, refresh_token=Secret(FIRST_REFRESH))

    assert [tokens.fetch().token.reveal() for _ in range(2)] == ["access-1", "access-2"]


def test_a_rotated_refresh_token_is_in_the_file_before_the_token_is_used(server, tmp_path):
    server.rotates = True
    path = tmp_path / "refresh"
    first = refreshing(server, path, refresh_token=Secret(FIRST_REFRESH))
    first.fetch()

    assert path.read_text() == "refresh-1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.fetch().token == Secret("access-2")
    # The next run begins with the file, not with what the job file still says.
    assert refreshing(server, path, refresh_token=Secret(FIRST_REFRESH)).fetch()
    assert path.read_text() == "refresh-3\n"
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock"] == ["refresh"]


def test_the_file_alone_is_enough(server, tmp_path):
    path = tmp_path / "refresh"
    path.write_text(f"  {FIRST_REFRESH} \n")

    assert refreshing(server, path).fetch().token == Secret("access-1")
    assert path.read_text() == f"  {FIRST_REFRESH} \n"


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_a_file_without_a_token_says_what_to_write(server, tmp_path, content):
    path = tmp_path / "refresh"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AuthenticationError, match="holds no refresh token") as caught:
        refreshing(server, path).fetch()

    assert "write its refresh token into the file" in caught.value.fix
    assert server.forms == []


def test_with_a_master_password_the_file_is_encrypted(server, tmp_path):
    server.rotates = True
    path = tmp_path / "refresh"
    path.write_text(FIRST_REFRESH)
    keys = KeySpec((Secret("master"),))
    refreshing(server, path, keys=keys).fetch()
    written = path.read_text().strip()

    assert written.startswith("ENC(v2:")
    assert SecretResolver({}, tmp_path, ("master",)).resolve(
        written, "ms.authentication"
    ) == Secret("refresh-1")
    assert refreshing(server, path, keys=keys).fetch().token == Secret("access-2")
    with pytest.raises(AuthenticationError, match="cannot be decrypted"):
        refreshing(server, path, keys=KeySpec((Secret("other"),))).fetch()


def test_without_a_file_a_rotated_token_lasts_for_the_run_and_this_is_said_once(server, caplog):
    server.rotates = True
    tokens = refreshing(server, refresh_token=Secret(FIRST_REFRESH))
    with caplog.at_level(logging.WARNING):
        found = [tokens.fetch().token.reveal() for _ in range(3)]

    assert found == ["access-1", "access-2", "access-3"]
    assert caplog.text.count("the next run will be refused") == 1


def test_a_token_that_another_run_used_up_is_replaced_by_its_successor(server, tmp_path):
    server.rotates = True
    path = tmp_path / "refresh"
    path.write_text(FIRST_REFRESH)
    spent = server.answer

    def used_up_meanwhile(form: dict, headers: dict) -> object:
        if form.get("refresh_token") == FIRST_REFRESH:
            server.refresh_token = "refresh-of-other-run"
            path.write_text("refresh-of-other-run")
        return spent(form, headers)

    server.answer = used_up_meanwhile

    assert refreshing(server, path).fetch().token == Secret("access-1")
    assert [form["refresh_token"] for form in server.forms] == [
        FIRST_REFRESH,
        "refresh-of-other-run",
    ]
    assert path.read_text() == "refresh-1\n"


def test_a_token_that_another_run_wrote_meanwhile_is_never_overwritten(server, tmp_path):
    server.rotates = True
    path = tmp_path / "refresh"
    path.write_text(FIRST_REFRESH)
    server.issued = lambda token: path.write_text("refresh-of-other-run")
    refreshing(server, path).fetch()

    assert path.read_text() == "refresh-of-other-run"


def test_two_runs_at_once_use_the_rotating_token_one_after_the_other(server, tmp_path):
    server.rotates = True
    path = tmp_path / "refresh"
    path.write_text(FIRST_REFRESH)
    runs = [refreshing(server, path) for _ in range(4)]
    found: list[str] = []
    threads = [
        threading.Thread(
            target=lambda run=run: found.extend(run.fetch().token.reveal() for _ in range(5))
        )
        for run in runs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(found) == sorted(f"access-{number}" for number in range(1, 21))
    assert path.read_text() == "refresh-20\n"


def test_a_folder_that_cannot_be_written_is_noticed_before_the_token_is_spent(server, tmp_path):
    path = tmp_path / "missing" / "refresh"
    with pytest.raises(AuthenticationError, match="cannot be locked") as caught:
        refreshing(server, path, refresh_token=Secret(FIRST_REFRESH)).fetch()

    assert "create files beside it" in caught.value.fix
    assert server.forms == []


def test_a_token_that_cannot_be_written_after_all_still_serves_this_run(server, tmp_path, caplog):
    server.rotates = True
    path = tmp_path / "refresh"
    path.symlink_to(tmp_path / "gone" / "refresh")
    tokens = refreshing(server, path, refresh_token=Secret(FIRST_REFRESH))
    with caplog.at_level(logging.WARNING):
        found = [tokens.fetch().token.reveal() for _ in range(3)]

    assert found == ["access-1", "access-2", "access-3"]
    assert caplog.text.count("cannot be written (No such file or directory)") == 1
    path.resolve().parent.mkdir()
    tokens.fetch()
    assert path.read_text() == "refresh-4\n"


def test_all_fetched_tokens_are_learned_to_be_masked(server, tmp_path):
    server.rotates = True
    server.tokens = 900
    refreshing(server, tmp_path / "refresh", refresh_token=Secret(FIRST_REFRESH)).fetch()

    assert {Secret("access-901"), Secret("refresh-901")} <= set(learned())
