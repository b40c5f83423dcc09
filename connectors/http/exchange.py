"""Sends one request until its answer is final: rate, retries, renewed credentials (rule S11)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from connectors.http.credentials import Credentials
from connectors.http.environment import SessionEnvironment
from connectors.http.limits import asked_wait, is_rate_limited
from connectors.http.outgoing import OutgoingRequest
from connectors.http.refusals import (
    answer_words,
    in_doubt,
    long_wait_error,
    quota_error,
    refusal_error,
)
from connectors.http.retries import RetryWaits, after_retries
from connectors.http.settings import HttpSettings
from connectors.http.statuses import NOT_DONE, REDIRECTS_WHEN_DONE, RETRIED, StatusVerdict, judge
from dil.errors import DilError, QuotaError, TransientSourceError
from dil.spi.connector import Session

if TYPE_CHECKING:
    import requests

log = logging.getLogger(__name__)


class Exchange:
    """Sends one request until its answer is final; each request of a session needs a new object.

    ``waits`` are new, too, unless an earlier exchange ended with an answer that reports a failure
    and the same request is sent again: its repetitions have one budget. Repetitions and waits are
    counted in ``session``. ``outgoing`` is the request sent last.
    """

    outgoing: OutgoingRequest

    def __init__(
        self,
        session: Session,
        settings: HttpSettings,
        environment: SessionEnvironment,
        credentials: Credentials,
        send: Callable[[OutgoingRequest], requests.Response],
        waits: RetryWaits,
    ) -> None:
        self._session = session
        self._settings = settings
        self._environment = environment
        self._credentials = credentials
        self._send = send
        self._waits = waits
        self._renewals = 0
        self._is_replayed = False

    def answer(
        self, build: Callable[[], OutgoingRequest]
    ) -> tuple[requests.Response, StatusVerdict]:
        """Return the final answer and the verdict on it.

        Args:
            build: Makes the request; called before each sending, so that it is signed anew.

        Raises:
            TransientSourceError: no answer came, although the request was repeated.
            UnknownOutcomeError: the source may have done the request, so it must not be repeated.
            QuotaError: the source wants a longer wait than the budget allows, or the job's own
                budget of requests is spent.
        """
        while True:
            waited = self._environment.coordinator.permit()
            self._session.seconds_waited += waited
            self._waits.forgive(waited)
            self.outgoing = build()
            try:
                answer = self._send(self.outgoing)
            except TransientSourceError as failure:
                if not self.waits_to_repeat(failure.message, None):
                    raise TransientSourceError(
                        f"{failure.message}{after_retries(self._waits.done)}", failure.fix
                    ) from failure
                continue
            verdict = self._judged(answer)
            if verdict in {StatusVerdict.SUCCESS, StatusVerdict.WARNING}:
                return answer, verdict
            if not self._renews(answer) and not self._waits_for(answer, verdict):
                return answer, verdict

    def refusal(self, answer: requests.Response, verdict: StatusVerdict) -> DilError:
        """Return the error for a final answer that is not a success."""
        return refusal_error(
            answer,
            verdict,
            self.outgoing.shown,
            repeats=self._waits.done,
            asked_s=self._asked(answer),
            login_fix=self._settings.credential_sources.advice,
        )

    def _judged(self, answer: requests.Response) -> StatusVerdict:
        """Return the verdict on an answer; an exhausted rate limit is not a failed login."""
        settings, code = self._settings, answer.status_code
        verdict = judge(code, answer.reason or "", settings.statuses, settings.reasons)
        if verdict is StatusVerdict.AUTHENTICATION and is_rate_limited(code, answer.headers):
            return StatusVerdict.TRANSIENT
        is_listed = self.outgoing.has_row and code in settings.statuses.error
        if verdict is StatusVerdict.TRANSIENT and is_listed:
            return StatusVerdict.ERROR  # The job declares that this status concerns the row.
        return verdict

    def _renews(self, answer: requests.Response) -> bool:
        """Return whether old credentials caused the answer and new ones are ready now."""
        status, retry = answer.status_code, self._settings.renewal
        what = answer_words(answer, self.outgoing.shown)
        if self._credentials.is_token_refused(status) and not self._is_replayed:
            answer.close()
            log.info("%s; sending again with a new token", what)
            self._is_replayed = True
            self._credentials.reject_token()
            self._session.retries += 1
            return True
        if not self._credentials.is_input_stale(status) or self._renewals >= retry.count:
            return False
        answer.close()
        self._renewals += 1
        log.warning(
            "%s; reading the authentication input again in %d s (%d of at most %d)",
            what, retry.delay_s, self._renewals, retry.count,
        )  # fmt: skip
        self._session.wait_to_retry(retry.delay_s, self._environment.sleep)
        self._waits.forgive(retry.delay_s)
        self._credentials.renew_input()
        return True

    def _waits_for(self, answer: requests.Response, verdict: StatusVerdict) -> bool:
        """Wait if the request may be sent again; return whether it may.

        Raises:
            QuotaError: the source wants a longer wait than the budget of retries has seconds.
            UnknownOutcomeError: the receiver may have done a request that must not be done twice.
        """
        status, asked = answer.status_code, self._asked(answer)
        is_limit = is_rate_limited(status, answer.headers)
        if verdict is StatusVerdict.QUOTA:
            now_s = self._environment.wall_clock()
            raise self._spent(quota_error(answer, self.outgoing.shown, asked, now_s))
        if self._is_in_doubt(status, verdict) and not is_limit:
            raise in_doubt(answer, self.outgoing.shown)
        if verdict is not StatusVerdict.TRANSIENT:
            return False
        if not is_limit and status not in RETRIED:
            return False
        what = answer_words(answer, self.outgoing.shown)
        return self.waits_to_repeat(what, asked, is_limit=is_limit, release=answer.close)

    def _is_in_doubt(self, status: int, verdict: StatusVerdict) -> bool:
        """Return whether the receiver may have done a request that must not be done twice."""
        if self.outgoing.is_repeatable:
            return False
        if verdict is StatusVerdict.TRANSIENT:
            return status not in NOT_DONE
        return status in REDIRECTS_WHEN_DONE and status not in self._settings.statuses.error

    def waits_to_repeat(
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
            raise self._spent(long_wait_error(failure, asked, environment.wall_clock()))
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
        self._session.wait_to_retry(wait, environment.sleep)
        return True

    def _spent(self, error: QuotaError) -> QuotaError:
        """Inform all tasks that the quota is spent; return the error to raise."""
        self._environment.coordinator.quota_spent(error.message)
        return error

    def _asked(self, answer: requests.Response) -> float | None:
        return asked_wait(answer.headers, self._environment.wall_clock())
