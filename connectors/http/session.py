"""One attempt's requests: built, sent, retried, judged (behaviour.md B7)."""

from __future__ import annotations

import email.utils
import logging
import random
import time
from collections.abc import Callable
from typing import BinaryIO, cast

import requests
import urllib3

from connectors.http.authentication import authentication_header
from connectors.http.body import BodyStream
from connectors.http.client import Client
from connectors.http.failures import connection_failure
from connectors.http.retries import Waits, retries_made
from connectors.http.settings import HttpSettings
from connectors.http.statuses import RETRIED, Verdict, judge
from connectors.http.target import Target, build_target, header_texts
from dil.errors import AuthenticationError, DilError, SourceError, TransientSourceError
from dil.model.secret import Secret
from dil.spi.connector import ByteSession, RequestValues, Response

_LOG = logging.getLogger(__name__)
_LOGGED_BYTES = 4096
_TIMEOUT_S = 60  # a request without a time-out could block a task for ever
_PASSING = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
    urllib3.exceptions.HTTPError,
)
_MAX_RETRY_AFTER_S = 300.0
_PATIENCE = "To wait longer raise ms.http.retry.max and ms.http.retry.max.seconds."


class HttpSession(ByteSession):
    """Sends idempotent requests over one pool of connections.

    ``retries`` counts requests that were sent again, ``seconds_waited`` the waits before them.
    Time, chance and waiting are arguments for tests.
    """

    def __init__(
        self,
        settings: HttpSettings,
        *,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._chance = chance
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._warned: set[str] = set()
        self._client = Client(settings, _credential_headers(settings))
        self.retries = 0
        self.seconds_waited = 0.0

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def fetch(self, values: RequestValues) -> Response:
        """Send one GET; follow redirects; try again what may pass within the retry budget.

        Raises:
            TransientSourceError: 408, 425, 429, 5xx, connection errors, time-outs.
            AuthenticationError: 401 or 403.
            SourceError: any other status that is neither success nor warning.
            ConfigError: the URI needs a value that this request has not, or a header has a line
                break.
        """
        headers, used = self._headers(values)
        target = build_target(
            self._settings.uri,
            values,
            encodes=self._settings.encodes,
            declared=self._settings.declared,
            consumed=used,
        )
        self._warn_of_unknown(target.unknown, "ms.source.uri")
        answer, verdict, repeats = self._answered(target, headers)
        if verdict is Verdict.SUCCESS:
            return _response(answer, target)
        if verdict is Verdict.WARNING:
            answer.close()
            return Response(
                body=None,
                headers=_headers_of(answer),
                location=target.shown,
                warning=f"HTTP status {answer.status_code} {answer.reason}, taken as no rows",
            )
        raise self._failure(answer, verdict, target, repeats)

    def _headers(self, values: RequestValues) -> tuple[dict[str, str], frozenset[str]]:
        """Return the headers of a request and the variables they used."""
        written = {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in (self._settings.headers or {}).items()
        }
        texts, used, missing = header_texts(written, values.variables)
        name, text, auth_used, auth_missing = authentication_header(
            self._settings, values.variables
        )
        if name:
            texts = {key: value for key, value in texts.items() if key.lower() != name.lower()}
            added, _, _ = header_texts({name: text}, {})
            texts.update(added)
        self._warn_of_unknown(missing | auth_missing, "headers")
        return texts, used | auth_used

    def _answered(
        self, target: Target, headers: dict[str, str]
    ) -> tuple[requests.Response, Verdict, int]:
        """Send until the answer is final or the retry budget is spent.

        Returns the answer, what it means, and how often the request was sent again.

        Raises:
            TransientSourceError: no answer came, however often the request was sent.
        """
        waits = Waits(self._settings.retry, self._monotonic)
        while True:
            found = self._tried(target, headers)
            answer = None if isinstance(found, TransientSourceError) else found
            if answer is not None:
                verdict = self._judged(answer)
                if verdict is not Verdict.TRANSIENT or answer.status_code not in RETRIED:
                    return answer, verdict, waits.done
            wait = waits.next(self._retry_after(answer), self._chance())
            if wait is None:
                if isinstance(found, TransientSourceError):
                    raise TransientSourceError(
                        f"{found.message} after {retries_made(waits.done)}", found.fix
                    )
                return found, Verdict.TRANSIENT, waits.done
            _LOG.warning(
                "%s; sending again in %.1f s (%d of at most %d)",
                _told(found, target), wait, waits.done, self._settings.retry.attempts,
            )  # fmt: skip
            if answer is not None:
                answer.close()
            self._wait(wait)

    def _tried(
        self, target: Target, headers: dict[str, str]
    ) -> requests.Response | TransientSourceError:
        """Send once; return the answer, or why there is none and may be one later."""
        try:
            return self._sent(target, headers)
        except TransientSourceError as error:
            return error

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)
        self.retries += 1
        self.seconds_waited += seconds

    def _sent(self, target: Target, headers: dict[str, str]) -> requests.Response:
        """Send once; no message of the client library is passed on, it may hold the URI."""
        tls = self._settings.tls
        try:
            request = self._client.prepare_request(requests.Request("GET", target.uri))
            request.url = target.uri
            for name, text in headers.items():
                request.headers[name] = cast("str", _wire(text))  # bytes are as good
            return self._client.send(
                request,
                stream=True,
                allow_redirects=True,
                timeout=(tls.connect_timeout_s or _TIMEOUT_S, tls.socket_timeout_s or _TIMEOUT_S),
                proxies=dict(self._client.proxies),
            )
        except requests.TooManyRedirects:
            raise SourceError(f"{target.shown}: too many redirects") from None
        except _PASSING as error:
            raise connection_failure(error, target.shown) from None
        except (requests.RequestException, ValueError) as error:
            raise SourceError(
                f"{target.shown}: the request cannot be sent ({type(error).__name__})",
                "Check ms.source.uri and ms.http.request.headers.",
            ) from None

    def _judged(self, answer: requests.Response) -> Verdict:
        settings = self._settings
        return judge(answer.status_code, answer.reason or "", settings.statuses, settings.reasons)

    def _retry_after(self, answer: requests.Response | None) -> float | None:
        """Return the seconds that the source asks to wait, at most 300 (RFC 9110, 10.2.3)."""
        text = (answer.headers.get("Retry-After") or "").strip() if answer is not None else ""
        if not text or answer is None:
            return None
        if text.isascii() and text.isdigit():
            return min(float(text), _MAX_RETRY_AFTER_S)
        due, sent = _http_date(text), _http_date(answer.headers.get("Date") or "")
        if due is None:
            return None
        now = self._wall_clock() if sent is None else sent
        return min(max(due - now, 0.0), _MAX_RETRY_AFTER_S)

    def _failure(
        self, answer: requests.Response, verdict: Verdict, target: Target, repeats: int
    ) -> DilError:
        """Return the error of a refused request; its body goes to the log, which masks secrets.

        At WARNING where the refusal will not pass by itself: only there does the source say what
        it minds. That a passing one failed is told by whoever gets the error.
        """
        with answer:
            level = logging.INFO if verdict is Verdict.TRANSIENT else logging.WARNING
            _log_body(answer, target, level)
        what = _told(answer, target)
        if verdict is Verdict.AUTHENTICATION:
            return AuthenticationError(
                what, "Check ms.authentication, source.conn.username and source.conn.password."
            )
        if verdict is Verdict.TRANSIENT:
            is_repeated = answer.status_code in RETRIED
            return TransientSourceError(
                f"{what} after {retries_made(repeats)}",
                _PATIENCE if is_repeated else "The source itself failed; look into it there.",
                self._retry_after(answer),
            )
        return SourceError(
            what, "Correct the request; ms.http.statuses says what counts as a failure."
        )

    def _warn_of_unknown(self, names: frozenset[str], place: str) -> None:
        """Say once for each name that nothing stands for it (B6.1)."""
        for name in sorted(names - self._warned):
            _LOG.warning("no value for {{%s}} in %s; it is sent as it is written", name, place)
        self._warned |= names


def _told(found: requests.Response | TransientSourceError, target: Target) -> str:
    if isinstance(found, TransientSourceError):
        return found.message
    return f"{target.shown}: HTTP status {found.status_code} {found.reason}"


def _credential_headers(settings: HttpSettings) -> frozenset[str]:
    """Return the names of headers that may carry credentials."""
    secret = {n for n, value in (settings.headers or {}).items() if isinstance(value, Secret)}
    if settings.authentication is not None:
        secret.add(settings.authentication.header)
    return frozenset({"Authorization", "Cookie", *secret})


def _response(answer: requests.Response, target: Target) -> Response:
    headers = _headers_of(answer)
    kind = (answer.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    body = cast("BinaryIO", BodyStream(answer, target.shown))
    return Response(body, headers, kind, checks_content_type=True, location=target.shown)


def _headers_of(answer: requests.Response) -> dict[str, str]:
    """Return header names as received; of a repeated one the last value (B7.5)."""
    return dict(answer.raw.headers.iteritems())


def _wire(text: str) -> str | bytes:
    """Return a header value as sent: Latin-1 where it fits, else UTF-8."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()
    return text


def _log_body(answer: requests.Response, target: Target, level: int) -> None:
    """Log the beginning of a refusal's body, if it has one."""
    if not _LOG.isEnabledFor(level):
        return
    try:
        body = cast("bytes", answer.raw.read(_LOGGED_BYTES, decode_content=True))
    except (urllib3.exceptions.HTTPError, OSError):
        return
    text = body.decode("utf-8", "replace").strip()
    if text:
        _LOG.log(level, "%s: with status %d comes: %s", target.shown, answer.status_code, text)


def _http_date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return None
