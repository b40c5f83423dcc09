"""Sends each request of one attempt until its answer is final: rate, retries, renewed credentials.

See rule S11 and docs/http.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO, cast

from requests.structures import CaseInsensitiveDict

from connectors.http.body import BodyStream, marks_its_end
from connectors.http.body_template import media_type_of
from connectors.http.client import Sender
from connectors.http.outgoing import Credentials, OutgoingRequest, build_outgoing
from connectors.http.refusals import (
    answer_words,
    long_wait_error,
    quota_error,
    refusal_error,
    release,
    request_words,
    unknown_outcome_error,
)
from connectors.http.settings import HttpSettings, SessionEnvironment
from connectors.http.verdicts import (
    NOT_DONE,
    REDIRECTS_WHEN_DONE,
    RETRIED,
    StatusVerdict,
    judge,
)
from connectors.http.waits import RetryWaits, after_retries, is_rate_limited, retry_after_s
from dil.errors import DilError, QuotaError, TransientSourceError
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
    _outgoing: OutgoingRequest  # the request that was sent last

    def __init__(self, settings: HttpSettings, environment: SessionEnvironment) -> None:
        self._settings = settings
        self._environment = environment
        self._credentials = Credentials(settings, environment)
        self._sender_key = (Sender, threading.get_ident())
        shared = environment.shared
        if shared is None:
            self._sender = self._new_sender()
        else:
            self._sender = shared.get(self._sender_key, self._new_sender)
            self._sender.forget()
        self._has_failed = False
        self._warned: set[str] = set()
        self._waits = RetryWaits(settings.retry, environment.monotonic)
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
        answer, verdict = self._final_answer(values)
        outgoing = self._outgoing
        location = request_words(answer, outgoing.shown)
        if verdict is StatusVerdict.SUCCESS:
            body = BodyStream(
                answer,
                location,
                wait_s=settings.body_wait_s,
                is_repeatable=outgoing.is_repeatable,
                limit=settings.expansion,
                monotonic=environment.monotonic,
            )
            return Response(
                cast("BinaryIO", body),
                _headers_of(answer),
                media_type_of(answer.headers.get("Content-Type") or ""),
                checks_content_type=True,
                location=location,
                uri=answer.url,
                status=answer.status_code,
                has_end=marks_its_end(answer.headers),
            )
        if verdict is StatusVerdict.WARNING:
            release(answer, outgoing.shown)
            return Response(
                body=None,
                headers=_headers_of(answer),
                location=location,
                warning=f"HTTP status {answer.status_code} {answer.reason}, counted as no rows",
                uri=answer.url,
                status=answer.status_code,
                is_unread=answer.status_code not in settings.statuses.warning
                and answer.status_code not in _WITHOUT_CONTENT
                and answer.headers.get("Content-Length") != "0",
            )
        raise refusal_error(
            answer,
            verdict,
            outgoing.shown,
            repeats=self._waits.done,
            asked_s=self._retry_after_s(answer),
            login_fix=settings.credential_sources.advice,
        )

    def waits_to_repeat(self, response: Response, failure: str, repeats: int) -> bool:
        """Wait as after a status 429. The request's budget of retries continues."""
        del repeats
        now_s = self._environment.wall_clock()
        asked = retry_after_s(CaseInsensitiveDict(response.headers), now_s)
        self._is_repeating = self._wait_to_send_again(failure, asked, is_limit=True)
        return self._is_repeating

    def _final_answer(self, values: RequestValues) -> tuple[requests.Response, StatusVerdict]:
        """Return the answer that no further sending can better, and the verdict on it (rule S11).

        The request is built before each sending, so that it is signed anew.
        """
        renewals, is_replayed = 0, False
        while True:
            waited = self._environment.coordinator.permit()
            self.seconds_waited += waited
            self._waits.forgive(waited)
            self._outgoing = self._build_request(values)
            try:
                answer = self._send(values)
            except TransientSourceError as failure:
                if not self._wait_to_send_again(failure.message, None):
                    again = after_retries(self._waits.done)
                    raise TransientSourceError(failure.message + again, failure.fix) from failure
                continue
            verdict = judge(answer, self._settings, has_row=self._outgoing.has_row)
            if verdict in {StatusVerdict.SUCCESS, StatusVerdict.WARNING}:
                return answer, verdict
            status = answer.status_code
            if self._credentials.is_token_refused(status) and not is_replayed:
                is_replayed = True
                self._renew_token(answer)
            elif (
                self._credentials.is_input_stale(status) and renewals < self._settings.renewal.count
            ):
                renewals += 1
                self._renew_input(answer, renewals)
            elif not self._wait_after_refusal(answer, verdict):
                return answer, verdict

    def _build_request(self, values: RequestValues) -> OutgoingRequest:
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

    def _send(self, values: RequestValues) -> requests.Response:
        """Send the request once, and record the sending."""
        outgoing, audit = self._outgoing, self._environment.audit
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

    def _renew_token(self, answer: requests.Response) -> None:
        """Let the next sending fetch another token of the grant."""
        answer.close()
        what = answer_words(answer, self._outgoing.shown)
        log.info("%s; sending again with a new token", what)
        self._credentials.reject_token()
        self.retries += 1

    def _renew_input(self, answer: requests.Response, number: int) -> None:
        """Read the authentication input again after its wait, for the ``number``-th time."""
        answer.close()
        retry, what = self._settings.renewal, answer_words(answer, self._outgoing.shown)
        log.warning(
            "%s; reading the authentication input again in %d s (%d of at most %d)",
            what, retry.delay_s, number, retry.count,
        )  # fmt: skip
        self.wait_to_retry(retry.delay_s, self._environment.sleep)
        self._waits.forgive(retry.delay_s)
        self._credentials.renew_input()

    def _wait_after_refusal(self, answer: requests.Response, verdict: StatusVerdict) -> bool:
        """Wait if the request may be sent again; return whether it may.

        Raises:
            QuotaError: the source wants a longer wait than the budget of retries has seconds.
            UnknownOutcomeError: the receiver may have done a request that must not be done twice.
        """
        status, asked = answer.status_code, self._retry_after_s(answer)
        is_limit = is_rate_limited(status, answer.headers)
        if verdict is StatusVerdict.QUOTA:
            now_s = self._environment.wall_clock()
            raise self._announce_spent(quota_error(answer, self._outgoing.shown, asked, now_s))
        if verdict is StatusVerdict.TRANSIENT:
            may_be_done = status not in NOT_DONE
        else:
            is_listed = status in self._settings.statuses.error
            may_be_done = status in REDIRECTS_WHEN_DONE and not is_listed
        if may_be_done and not is_limit and not self._outgoing.is_repeatable:
            raise unknown_outcome_error(answer, self._outgoing.shown)
        if verdict is not StatusVerdict.TRANSIENT or not (is_limit or status in RETRIED):
            return False
        what = answer_words(answer, self._outgoing.shown)
        return self._wait_to_send_again(what, asked, is_limit=is_limit, release=answer.close)

    def _wait_to_send_again(
        self,
        failure: str,
        asked: float | None,
        *,
        is_limit: bool = False,
        release: Callable[[], object] = lambda: None,
    ) -> bool:
        """Wait if the budget lets the request be sent again; return whether it does.

        Args:
            failure: What failed, as a sentence for the log.
            asked: The seconds that the source asks to wait, None if it does not say.
            is_limit: Whether the source limits the rate of requests, so that all tasks slow down.
            release: Closes the answer, which is needed only if the budget is spent.

        Raises:
            QuotaError: the source wants a longer wait than the budget of retries has seconds.
        """
        environment, budget = self._environment, self._settings.retry
        if asked is not None and asked > budget.longest_wait_s:
            release()
            raise self._announce_spent(long_wait_error(failure, asked, environment.wall_clock()))
        wait = self._waits.next(asked, environment.chance())
        if wait is None:
            return False
        if is_limit or asked is not None:
            environment.coordinator.slow_down(wait)
        log.warning(
            "%s; sending again in %.1f s (%d of at most %d)",
            failure, wait, self._waits.done, budget.attempts,
        )  # fmt: skip
        release()
        self.wait_to_retry(wait, environment.sleep)
        return True

    def _announce_spent(self, error: QuotaError) -> QuotaError:
        """Inform all tasks that the quota is spent; return the error to raise."""
        self._environment.coordinator.quota_spent(error.message)
        return error

    def _retry_after_s(self, answer: requests.Response) -> float | None:
        return retry_after_s(answer.headers, self._environment.wall_clock())


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
