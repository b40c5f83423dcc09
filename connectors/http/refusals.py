"""The errors for requests that the source refused."""

from __future__ import annotations

import datetime as dt
import logging
import re
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from connectors.http.body import BodyStream
from connectors.http.failures import PLAIN_REDIRECT_FIX, PROXY_FIX, unknown_outcome
from connectors.http.target import is_same_origin, shown_uri
from connectors.http.verdicts import RETRIED, StatusVerdict
from connectors.http.waits import after_retries
from dil.errors import (
    AuthenticationError,
    DilError,
    QuotaError,
    RefusedAnswer,
    SourceError,
    TransientSourceError,
    UnknownOutcomeError,
)
from dil.extraction.excerpt import excerpt
from dil.model.secret import MASK

if TYPE_CHECKING:
    import requests

log = logging.getLogger(__name__)
_SHOWN_BYTES = 4096
_BODY_WAIT_S = 30.0
_ERRORS = range(400, 600)
# A challenge of WWW-Authenticate (RFC 9110 section 11.6.1) begins with its scheme, and has no
# commas but before parameters, once the quoted texts are gone.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCHEME = re.compile(r"(?:^|,)\s*([A-Za-z][\w-]*)\s*(?=\s[^=\s]|,|$)")
_UNSUPPORTED = {"digest", "negotiate", "ntlm", "kerberos"}
# A long part of a path, which may give access to a download.
_TOKEN = re.compile("[A-Za-z0-9+_=~-]{20,}")
_LIMIT = re.compile("limit|quota", re.IGNORECASE)
_REDIRECTS = range(300, 400)
_SEE_OTHER_FIX = (
    " If the receiver answers so after it has taken a row, list the status under `warning` of"
    " ms.http.statuses; if it takes no row then, list it under `error`."
)
_NOT_FOLLOWED_FIX = (
    "Only GET follows redirects: if that address is right, write it into ms.source.uri."
)
_REDIRECTED_FIX = (
    "A redirect led to another origin, and DIL sends no credentials there. If the address is right,"
    " write it into ms.source.uri."
)
_PATIENCE = "To wait longer, raise ms.http.retry.max and ms.http.retry.max.seconds."
_LIMIT_FIX = (
    'The answer names a limit. If that limit is spent, add "quota": [403] to ms.http.statuses,'
    " and run the job again when it is renewed. If the credentials are wrong:"
)
_QUOTA_FIX = (
    "Run the job again then: finished work is kept. To wait inside the run, raise"
    " ms.http.retry.max.seconds; to send fewer requests, set ms.http.rate.limit."
)


def refusal_error(
    answer: requests.Response,
    verdict: StatusVerdict,
    shown: str,
    *,
    repeats: int,
    asked_s: float | None,
    login_fix: str,
) -> DilError:
    """Return the error for a refused request, and log the answer's body without secrets.

    The caller logs the error itself. The body is logged at WARNING if the error does not quote
    the body and no retry can help, else at INFO.

    Args:
        answer: The final answer.
        verdict: Its meaning, which is neither a success nor a warning.
        shown: The request.
        repeats: How often the request was sent again.
        asked_s: The seconds that the source asks to wait, None if it does not say.
        login_fix: The advice if the source refuses the credentials.
    """
    text = _beginning(answer, shown)
    what = answer_words(answer, shown)
    status = answer.status_code
    if _other_origin(answer):
        login_fix = _REDIRECTED_FIX
    is_forbidden = status == HTTPStatus.FORBIDDEN
    passes = verdict is StatusVerdict.TRANSIENT
    if text:
        level = logging.INFO if passes or status in _ERRORS else logging.WARNING
        log.log(level, "%s: the answer with status %d says: %s", shown, status, text)
    if passes:
        what += after_retries(repeats)
    if unsupported := _unsupported_schemes(answer):
        what += f"; the source asks for {unsupported}"
        login_fix = (
            f"ms.authentication has no {unsupported}: let the source accept Basic or a token. If it"
            f" does: {login_fix}"
        )
    if text and status in _ERRORS:
        what = _with_beginning(what, text)
    if passes:
        fix = _PATIENCE if status in RETRIED else "The source itself failed; check the source."
        if is_forbidden:  # a login page may have the headers of a rate limit, too
            fix = f"{_PATIENCE} If the credentials are wrong: {login_fix}"
        return TransientSourceError(what, fix, asked_s)
    if verdict is StatusVerdict.AUTHENTICATION:
        names_limit = is_forbidden and _LIMIT.search(text)
        return AuthenticationError(what, f"{_LIMIT_FIX} {login_fix}" if names_limit else login_fix)
    return _wrong_request(answer, what, text)


def _unsupported_schemes(answer: requests.Response) -> str:
    """Return the schemes that a 401 asks for, empty if it asks for none or for a supported one."""
    if answer.status_code != HTTPStatus.UNAUTHORIZED:
        return ""
    challenges = _QUOTED.sub('""', answer.headers.get("WWW-Authenticate", ""))
    schemes = dict.fromkeys(_SCHEME.findall(challenges))
    return " or ".join(schemes) if _UNSUPPORTED.issuperset(map(str.lower, schemes)) else ""


def _wrong_request(answer: requests.Response, what: str, text: str) -> SourceError:
    """Return the error for a request that would get the same answer again."""
    status = answer.status_code
    fix = "Correct the request; ms.http.statuses defines the statuses that are failures."
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        fix = PROXY_FIX
    elif target := _redirect_target(answer):
        what += f"; it leads to {target}"
        is_plain = target.lower().startswith("http:") and answer.url.lower().startswith("https:")
        fix = PLAIN_REDIRECT_FIX if is_plain else _NOT_FOLLOWED_FIX
    elif status < HTTPStatus.MULTIPLE_CHOICES:
        fix = (
            "`error` of ms.http.statuses lists this status, or `error` of ms.http.status.reasons "
            "its reason; the next run asks again."
        )
    error = SourceError(what, fix)
    if status not in _REDIRECTS:  # A redirect shows that the address is wrong.
        error.refused = RefusedAnswer(status, answer.reason or "", text)
    return error


def quota_error(
    answer: requests.Response, shown: str, asked_s: float | None, now_s: float
) -> QuotaError:
    """Return the error for a spent quota; it says when the source will answer again.

    Args:
        answer: The answer; if only its status says that the quota is spent, the error quotes it.
        shown: The request.
        asked_s: The seconds that the source asks to wait, None if it does not say.
        now_s: The time in epoch seconds.
    """
    what = answer_words(answer, shown)
    if asked_s is None:
        text = _beginning(answer, shown)
        spent = f"{what}; the source's quota is spent"
        return QuotaError(
            _with_beginning(spent, text) if text else spent,
            "Run the job again when the quota is renewed: finished work is kept.",
        )
    answer.close()
    return long_wait_error(what, asked_s, now_s)


def long_wait_error(what: str, asked_s: float, now_s: float) -> QuotaError:
    """Return the error for an answer that asks for a longer wait than the job allows."""
    opens = dt.datetime.fromtimestamp(now_s + asked_s, dt.UTC).isoformat(timespec="seconds")
    return QuotaError(
        f"{what}; the source asks to wait {asked_s:.0f} s, until {opens}: its quota is spent",
        _QUOTA_FIX,
    )


def unknown_outcome_error(answer: requests.Response, shown: str) -> UnknownOutcomeError:
    """Return the error for an answer that does not show whether the source did the request."""
    text = _beginning(answer, shown)
    what = answer_words(answer, shown)
    if target := _redirect_target(answer):
        what += f"; it leads to {target}"
    if text:
        log.warning("%s: the answer with status %d says: %s", shown, answer.status_code, text)
        what = _with_beginning(what, text)
    error = unknown_outcome(what)
    if answer.status_code in _REDIRECTS:
        error.fix += _SEE_OTHER_FIX
    return error


def release(answer: requests.Response, shown: str) -> None:
    """Close an answer; if its body is short, the next request uses the connection."""
    _beginning(answer, shown)


def answer_words(answer: requests.Response, shown: str) -> str:
    """Return the request and the status of its answer as words of a message."""
    asked = request_words(answer, shown)
    return f"{asked}: HTTP status {answer.status_code} {answer.reason}".rstrip()


def request_words(answer: requests.Response, shown: str) -> str:
    """Return the request, and the other origin that it was redirected to, as words of a message."""
    other = _other_origin(answer)
    if not other:
        return shown
    scheme, _, rest = shown_uri(other).partition("://")
    host, slash, path = rest.partition("/")
    return f"{shown}, redirected to {scheme}://{host}{slash}{_TOKEN.sub(MASK, path)}"


def _other_origin(answer: requests.Response) -> str:
    """Return the first address of another origin that redirects led to, empty if they led to none.

    From there on the request has no credentials, also if another redirect leads back.
    """
    asked, *targets = (each.url for each in (*answer.history, answer))
    return next((each for each in targets if not is_same_origin(asked, each)), "")


def _redirect_target(answer: requests.Response) -> str:
    """Return where a redirect leads, without the values of the query; empty for other answers."""
    if answer.status_code in _REDIRECTS and "Location" in answer.headers:
        with suppress(ValueError):  # The header may hold no valid address.
            return shown_uri(urljoin(answer.url, answer.headers["Location"]))
    return ""


def _with_beginning(what: str, text: str) -> str:
    return f"{what}; the answer begins: {excerpt(text.encode(), is_refusal=True)}"


def _beginning(answer: requests.Response, shown: str) -> str:
    """Return the beginning of a body as text, as far as it can be read; close the answer."""
    found = b""
    with suppress(DilError), answer, BodyStream(answer, shown, wait_s=_BODY_WAIT_S) as body:
        while len(found) < _SHOWN_BYTES and (more := body.read(_SHOWN_BYTES - len(found))):
            found += more
    if answer.is_redirect:  # Its text repeats the address with the values of the query.
        return ""
    return found.decode("utf-8", "replace").strip()
