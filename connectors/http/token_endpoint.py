"""Requests a token from an authorization server (RFC 6749); runs on the driver."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import quote_plus

import requests
import urllib3

from connectors.http.body import BodyStream
from connectors.http.client import Client
from connectors.http.failures import connection_failure
from connectors.http.settings import HttpSettings, RetryBudget, SessionEnvironment
from connectors.http.target import shown_uri
from connectors.http.waits import RetryWaits, after_retries, is_rate_limited, retry_after_s
from dil.errors import DilError, SourceError, TransientSourceError
from dil.model.authentication import Authentication
from dil.model.json import JsonValue
from dil.model.messages import shortened
from dil.model.secret import MASK, Secret, revealed

log = logging.getLogger(__name__)
_TIMEOUT_S = 60
_BODY_WAIT_S = 60.0
_MAX_BYTES = 1 << 20
_PASSING = frozenset({429, *range(500, 600)})
# RFC 6749 section 4.1.2.1; Entra ID and others send them here, too, with a status of a refusal.
_PASSING_ERRORS = frozenset({"temporarily_unavailable", "server_error"})
_EXPLAINING = ("error", "error_description", "error_uri")  # RFC 6749 section 5.2
_OK = range(200, 300)
# A task should not wait longer than this for a token; the task's own retries follow.
_BUDGET = RetryBudget(3, 60.0)
_ENDPOINT = "tokenUri of ms.authentication"
_FAILED = (requests.RequestException, urllib3.exceptions.HTTPError)


@dataclass(frozen=True, slots=True)
class Granted:
    """A token; ``lifetime_s`` and ``refresh`` are None if the server does not send them."""

    token: Secret
    lifetime_s: float | None = None
    refresh: Secret | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    """The server's refusal; ``reason`` is its error code of RFC 6749 section 5.2, or empty."""

    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    members: Mapping[str, JsonValue]
    asked_s: float | None = field(default=None)
    is_limit: bool = False

    @property
    def may_pass(self) -> bool:
        """Return whether the server neither granted nor refused the token."""
        is_outage = str(self.members.get("error")) in _PASSING_ERRORS
        return (
            self.status in _PASSING
            or self.is_limit
            or (is_outage and "access_token" not in self.members)
        )


class TokenEndpoint:
    """The server at a job's ``tokenUri``; requests use the time-outs, proxy and TLS of the job."""

    def __init__(self, settings: HttpSettings, environment: SessionEnvironment) -> None:
        if settings.authentication is None:
            raise AssertionError("a job without ms.authentication needs no token")
        self._grant: Authentication = settings.authentication
        self._settings = replace(settings, uri=self._grant.token_uri, body_wait_s=_BODY_WAIT_S)
        self._environment = environment
        self._shown = shown_uri(self._grant.token_uri)

    def ask(self, form: Mapping[str, str | Secret]) -> Granted | Denied:
        """Send a form with the client's credentials, and return the server's answer.

        After 429, 5xx, a spent limit, an error code for an outage or a broken connection, this
        method retries, up to three times in a minute.

        Raises:
            TransientSourceError: the server neither granted nor refused the token.
            SourceError: the server's certificate is not trusted, or the request cannot be sent.
        """
        members = {**form, **self._grant.parameters}
        if self._grant.scope:
            members["scope"] = self._grant.scope
        if self._grant.audience:
            members["audience"] = self._grant.audience
        # The client is named in the form, or in a header (RFC 6749 section 2.3.1).
        headers = {"Accept": "application/json"}
        client_id, secret = revealed(self._grant.client_id), self._grant.client_secret
        if client_id and (secret is None or self._grant.client_authentication == "body"):
            members["client_id"] = self._grant.client_id
            if secret is not None:
                members["client_secret"] = secret
        elif client_id:
            pair = f"{quote_plus(client_id)}:{quote_plus(revealed(secret))}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
        sent = {name: revealed(value) for name, value in members.items()}
        hidden = [value.reveal() for value in members.values() if isinstance(value, Secret)]
        with Client(self._settings) as client:
            return self._answered(client, sent, headers, [*hidden, revealed(secret)])

    def _answered(
        self,
        client: Client,
        form: Mapping[str, str],
        headers: Mapping[str, str],
        hidden: list[str],
    ) -> Granted | Denied:
        waits = RetryWaits(_BUDGET, self._environment.monotonic)
        while True:
            found = self._tried(client, form, headers)
            asked = found.asked_s if isinstance(found, _Answer) else None
            if isinstance(found, _Answer) and not found.may_pass:
                return self._judged(found, hidden)
            wait = waits.next(asked, self._environment.chance())
            what = found.message if isinstance(found, DilError) else self._words(found, hidden)
            if wait is None:
                again = _about_endpoint("Try again later.")
                fix = found.fix if isinstance(found, DilError) else again
                raise TransientSourceError(
                    f"no token: {what}{after_retries(waits.done)}", fix, asked
                )
            log.warning("no token yet: %s; trying again in %.1f s", what, wait)
            self._environment.sleep(wait)

    def _tried(
        self, client: Client, form: Mapping[str, str], headers: Mapping[str, str]
    ) -> _Answer | TransientSourceError:
        """Send once, and return the answer or the failure; the failure does not show the form."""
        tls = self._settings.tls
        try:
            with client.post(
                self._settings.uri,
                data=dict(form),
                headers=dict(headers),
                stream=True,
                allow_redirects=False,  # Secrets go only to the configured address.
                timeout=(tls.connect_timeout_s or _TIMEOUT_S, tls.socket_timeout_s or _TIMEOUT_S),
            ) as answer:
                asked = retry_after_s(answer.headers, self._environment.wall_clock())
                is_limit = is_rate_limited(answer.status_code, answer.headers)
                return _Answer(answer.status_code, _members(answer, self._shown), asked, is_limit)
        except TransientSourceError as error:
            return error
        except ValueError:  # errors of ``requests`` about addresses and headers, too
            raise SourceError(f"{self._shown}: the request for a token cannot be sent") from None
        except _FAILED as error:
            found = connection_failure(error, self._shown, _ENDPOINT)
            failure = type(found)(found.message, _about_endpoint(found.fix))
            if isinstance(failure, TransientSourceError):
                return failure
            raise failure from None

    def _judged(self, answer: _Answer, hidden: list[str]) -> Granted | Denied:
        members = answer.members
        token = members.get("access_token")
        if answer.status in _OK and isinstance(token, str) and token:
            refresh = members.get("refresh_token")
            return Granted(
                Secret(token),
                _seconds(members.get("expires_in")),
                Secret(refresh) if isinstance(refresh, str) and refresh else None,
            )
        missing = "without an access_token" if members else "and no JSON object"
        what = self._words(answer, hidden, missing)
        return Denied(f"no token: {what}", str(members.get("error") or ""))

    def _words(self, answer: _Answer, hidden: list[str], default: str = "") -> str:
        texts = filter(None, map(answer.members.get, _EXPLAINING))
        why = ": ".join(_plain(str(text), hidden) for text in texts) or default
        words = f"{self._shown} answers with HTTP status {answer.status}"
        return f"{words}, {why}" if why else words


def _about_endpoint(fix: str) -> str:
    """Return advice that names the property with the address of the request for a token."""
    return fix if _ENDPOINT in fix else f"{fix} The token is asked for at {_ENDPOINT}."


def _members(answer: requests.Response, shown: str) -> Mapping[str, JsonValue]:
    """Return the answer's JSON object, empty if it has another form."""
    found = b""
    with BodyStream(answer, shown, wait_s=_BODY_WAIT_S) as body:
        while len(found) < _MAX_BYTES and (more := body.read(_MAX_BYTES - len(found))):
            found += more
    try:
        value = json.loads(found)
    except ValueError:
        return {}
    return cast("Mapping[str, JsonValue]", value) if isinstance(value, dict) else {}


def _seconds(value: object) -> float | None:
    """Return a lifetime in seconds, None if unknown; some servers send a text or null."""
    try:
        seconds = float(cast("str", value))
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < float("inf") else None


def _plain(text: str, hidden: list[str]) -> str:
    """Return a server's words on one line, shortened, without the secrets that were sent to it."""
    for secret in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return shortened(" ".join(text.split()))
