"""Sends the requests of one attempt, judges the answers and returns them (docs/http.md)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO, cast

from requests.structures import CaseInsensitiveDict

from connectors.http.body import BodyStream, marks_its_end
from connectors.http.credentials import Credentials
from connectors.http.environment import SessionEnvironment
from connectors.http.exchange import Exchange
from connectors.http.limits import asked_wait
from connectors.http.outgoing import OutgoingRequest, build_outgoing
from connectors.http.retries import RetryWaits
from connectors.http.sending import Sender
from connectors.http.settings import HttpSettings
from connectors.http.statuses import StatusVerdict
from connectors.http.written_body import media_type_of
from dil.errors import DilError
from dil.model.secret import MASK, Secret
from dil.spi.audit import AuditedRequest
from dil.spi.connector import ByteSession, RequestValues, Response
from dil.spi.request_view import RequestView

if TYPE_CHECKING:
    import requests

log = logging.getLogger(__name__)

_WITHOUT_CONTENT = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.RESET_CONTENT})


class HttpSession(ByteSession):
    """Sends requests, one after the other, over one pool of connections.

    The pool serves the next session of this thread as well. After a failure the pool is closed, so
    that another attempt may find another way to the source.

    ``retries`` counts requests that were sent again. ``seconds_waited`` is the time spent waiting,
    before retries and for the job's rate limit.
    """

    audits = True
    _exchange: Exchange  # of the last request

    def __init__(
        self, settings: HttpSettings, environment: SessionEnvironment | None = None
    ) -> None:
        self._settings = settings
        self._environment = environment or SessionEnvironment()
        self._credentials = Credentials(settings, self._environment)
        self._sender_key = (Sender, threading.get_ident())
        shared = self._environment.shared
        if shared is None:
            self._sender = self._new_sender()
        else:
            self._sender = shared.get(self._sender_key, self._new_sender)
            self._sender.forget()
        self._has_failed = False
        self._warned: set[str] = set()
        self._waits = RetryWaits(settings.retry, self._environment.monotonic)
        self._is_repeating = False
        self.retries = 0
        self.seconds_waited = 0.0

    def _new_sender(self) -> Sender:
        return Sender(self._settings, self._environment.monotonic)

    def close(self) -> None:
        """Close all connections, unless the next session of this thread uses them."""
        if self._environment.shared is None:
            self._sender.close()
        elif self._has_failed:
            self._environment.shared.drop(self._sender_key)

    def describe(self, values: RequestValues) -> RequestView:
        """Return a view of the request, without fetching a grant's token for it.

        Raises:
            ConfigError: see ``fetch``.
            SourceContractError: see ``fetch``.
        """
        token = Secret(MASK) if self._credentials.has_grant else None
        found = build_outgoing(self._settings, self._credentials.overlaid(values), token)
        body = (found.body or b"").decode("utf-8", "replace")
        return RequestView(found.method, found.uri, found.headers, body, is_http=True)

    def fetch(self, values: RequestValues) -> Response:
        """Return the answer to one request; retry failures that may pass, within the budget.

        Raises:
            TransientSourceError: 408, 425, 429, 5xx, connection errors, time-outs.
            AuthenticationError: 401 or 403, also with renewed credentials.
            QuotaError: the source wants a longer wait than the budget allows, or the job's own
                budget of requests is spent.
            UnknownOutcomeError: the source may have done a request that is not idempotent.
            SourceContractError: the next page is at another origin.
            SourceError: any other status that is neither success nor warning.
            ConfigError: the URI needs a value that this request lacks, or a header has a line
                break.
        """
        settings, environment = self._settings, self._environment
        if not self._is_repeating:
            self._waits = RetryWaits(settings.retry, environment.monotonic)
        self._is_repeating = False
        send = self._audited(values)
        exchange = Exchange(self, settings, environment, self._credentials, send, self._waits)
        self._exchange = exchange
        answer, verdict = exchange.answer(lambda: self._outgoing(values))
        if verdict is StatusVerdict.SUCCESS:
            body = BodyStream(
                answer,
                exchange.outgoing.shown,
                wait_s=settings.body_wait_s,
                is_repeatable=exchange.outgoing.is_repeatable,
                limit=settings.expansion,
                monotonic=environment.monotonic,
            )
            return Response(
                cast("BinaryIO", body),
                _headers_of(answer),
                media_type_of(answer.headers.get("Content-Type") or ""),
                checks_content_type=True,
                location=exchange.outgoing.shown,
                uri=answer.url,
                status=answer.status_code,
                has_end=marks_its_end(answer.headers),
            )
        if verdict is StatusVerdict.WARNING:
            answer.close()
            return Response(
                body=None,
                headers=_headers_of(answer),
                location=exchange.outgoing.shown,
                warning=f"HTTP status {answer.status_code} {answer.reason}, counted as no rows",
                uri=answer.url,
                status=answer.status_code,
                is_unread=answer.status_code not in settings.statuses.warning
                and answer.status_code not in _WITHOUT_CONTENT
                and answer.headers.get("Content-Length") != "0",
            )
        raise exchange.refusal(answer, verdict)

    def waits_to_repeat(self, response: Response, failure: str, repeats: int) -> bool:
        """Wait as after a status 429. The request's budget of retries continues."""
        del repeats
        now_s = self._environment.wall_clock()
        asked = asked_wait(CaseInsensitiveDict(response.headers), now_s)
        self._is_repeating = self._exchange.waits_to_repeat(failure, asked, is_limit=True)
        return self._is_repeating

    def _audited(self, values: RequestValues) -> Callable[[OutgoingRequest], requests.Response]:
        """Return the function that sends a request and records it; each sending is recorded."""
        audit = self._environment.audit

        def send(outgoing: OutgoingRequest) -> requests.Response:
            number = audit.sent(
                AuditedRequest(outgoing.method, outgoing.uri, values.parameters, values.payload)
            )
            try:
                answer = self._sender.send(outgoing)
            except DilError as error:
                self._has_failed = True
                audit.answered(number, 0, error.message)
                raise
            audit.answered(number, answer.status_code)
            return answer

        return send

    def _outgoing(self, values: RequestValues) -> OutgoingRequest:
        """Return the request with the current credentials; warn of names without a value."""
        token = self._credentials.token()
        outgoing = build_outgoing(self._settings, self._credentials.overlaid(values), token)
        for place, names in outgoing.unknown.items():
            for name in sorted(names - self._warned):  # once about each name (rule G31)
                log.warning(
                    "no value for {{%s}} in %s; the placeholder is sent as it is written",
                    name,
                    place,
                )
            self._warned |= names
        return outgoing


def _headers_of(answer: requests.Response) -> dict[str, str]:
    """Return header names as received, with the last value of a repeated header.

    Link is an exception: its values are one list, even if they come in several lines (RFC 8288
    section 3).
    """
    headers = dict(answer.raw.headers.iteritems())
    return {
        name: answer.raw.headers[name] if name.lower() == "link" else value
        for name, value in headers.items()
    }
