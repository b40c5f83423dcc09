"""Requests to Google Cloud Storage: credentials, repetition, and translation of refusals.

Source: the service's JSON API, https://cloud.google.com/storage/docs/json_api.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import requests

from dil import __version__
from dil.errors import WriteError
from dil.storage.objects.bucket import ObjectExistsError, reason
from dil.storage.whole_answers import refuse_torn_answers

_HOST = "https://storage.googleapis.com"
# The variable with an emulator's address, as Google's own clients name it.
_EMULATOR = "STORAGE_EMULATOR_HOST"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
# Seconds. A request without a time-out could block a task for ever.
_TIMEOUT = (20, 120)
# The service accepts one write per second for an object, and answers 429 to more.
_PAUSES_S = (0.3, 1.0, 2.0, 4.0)
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_GENERATION = "X-Goog-Generation"  # comes with the content of an object, which may be HTML
_BUCKET_FIX = "Create the bucket, or correct the property that names it."
_RIGHTS_FIX = (
    "Grant the identity storage.objects.list, get, create and delete on the bucket: the role"
    " Storage Object User has them."
)
_KEYS_FIX = (
    "Put credentials where Google's tools look for them: GOOGLE_APPLICATION_CREDENTIALS, gcloud"
    " auth application-default login, or the service account of the machine or pod; executors"
    " need them as well."
)
_SERVICE_FIX = f"Check the network, and {_EMULATOR} if it is set. Nothing was lost: run again."


class _NoAnswerError(WriteError):
    """No server answered; the next try may get an answer."""


class Requests:
    """A session with credentials; it repeats requests after temporary failures of the service.

    A repeated request may find that the service already carried out the first one.
    """

    def __init__(self, path: str) -> None:
        emulator = os.environ.get(_EMULATOR, "")  # noqa: TID251 - as Google's own clients do
        has_scheme = emulator.startswith(("http://", "https://"))
        self.at = (emulator if has_scheme or not emulator else f"http://{emulator}") or _HOST
        self.at = self.at.rstrip("/")
        self._session = _session(path, is_emulator=bool(emulator))
        refuse_torn_answers(self._session)
        self._session.headers["User-Agent"] = f"dil-spark/{__version__}"

    def ask(
        self,
        path: str,
        method: str,
        address: str,
        *,
        fine: tuple[int, ...] = (200,),
        **options: Any,  # of requests
    ) -> requests.Response:
        """Return the answer to a request.

        Args:
            path: The path of the request's object, for messages.
            method: The HTTP method.
            address: The whole address, or the part after the service's address.
            fine: The statuses that count as success.
            options: Arguments of ``requests``.

        Raises:
            FileNotFoundError: the answer is 404.
            ObjectExistsError: the answer is 412.
            WriteError: any other status, or no answer.
        """
        url = address if "://" in address else f"{self.at}{address}"
        for pause_s in _PAUSES_S:
            with suppress(_NoAnswerError):
                answer = self._send_once(path, method, url, **options)
                if answer.status_code in fine or answer.status_code not in _AGAIN:
                    return self._accept(path, answer, fine)
            time.sleep(random.uniform(pause_s / 2, pause_s))  # noqa: S311 - not a secret
        return self._accept(path, self._send_once(path, method, url, **options), fine)

    def _send_once(
        self,
        path: str,
        method: str,
        url: str,
        **options: Any,
    ) -> requests.Response:
        """Send a request once and return the answer.

        No error is chained: the library's errors contain addresses, and an upload's address is
        secret.
        """
        from google.auth import exceptions as auth

        try:
            answer = self._session.request(
                method, url, timeout=_TIMEOUT, allow_redirects=False, **options
            )
        except auth.TransportError:
            what = f"{path}: the server that issues tokens for {self.at} cannot be reached"
            raise _NoAnswerError(what, _KEYS_FIX) from None
        except requests.RequestException as error:
            kind = type(error).__name__.removesuffix("Error")
            what = f"{path}: {self.at} cannot be reached ({kind})"
            raise _NoAnswerError(what, _SERVICE_FIX) from None
        except auth.GoogleAuthError as error:
            what = f"{path}: the credentials for {self.at} were refused ({reason(error)})"
            raise WriteError(what, _KEYS_FIX) from None
        kind = answer.headers.get("Content-Type", "")
        # Google sends this type also with answers without a body, such as the start of an upload.
        is_page = kind.startswith("text/html") and answer.content
        if answer.ok and is_page and _GENERATION not in answer.headers:
            what = f"{path}: another program answers in place of {self.at}, with a page in HTML"
            raise _NoAnswerError(what, f"A proxy may have sent the page. {_SERVICE_FIX}")
        return answer

    def _accept(
        self, path: str, answer: requests.Response, fine: tuple[int, ...]
    ) -> requests.Response:
        if answer.status_code in fine:
            return answer
        words = _words(answer)
        status = answer.status_code
        if status == HTTPStatus.NOT_FOUND and "bucket does not exist" in words:
            raise no_bucket(path, self.at)
        if status == HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(path)
        if status == HTTPStatus.PRECONDITION_FAILED:
            raise ObjectExistsError(path)
        what = f"{path}: {self.at} answers {status}" + (f" ({words})" if words else "")
        if status == HTTPStatus.UNAUTHORIZED:
            raise WriteError(what, _KEYS_FIX)
        raise WriteError(what, _RIGHTS_FIX if status == HTTPStatus.FORBIDDEN else _SERVICE_FIX)


def no_bucket(path: str, at: str) -> WriteError:
    """Return the error for a bucket that does not exist."""
    return WriteError(f"{path}: there is no such bucket at {at}", _BUCKET_FIX)


def _session(path: str, *, is_emulator: bool) -> requests.Session:
    """Return a session that finds credentials in the same way as Google's own clients."""
    try:
        import google.auth
        from google.auth.transport.requests import AuthorizedSession
    except ImportError as error:
        raise WriteError(
            "a place on Google Cloud Storage needs google-auth, which is not installed",
            "Install it on every machine that runs tasks: pip install 'dil-spark[gcs]'.",
        ) from error
    if is_emulator:
        return requests.Session()
    # The library warns if no project is set, but buckets need none.
    logging.getLogger("google.auth._default").setLevel(logging.ERROR)
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except (google.auth.exceptions.GoogleAuthError, ValueError) as error:
        what = f"{path}: there are no credentials for Google Cloud Storage ({reason(error)})"
        raise WriteError(what, _KEYS_FIX) from None
    session: requests.Session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    return session


def _words(answer: requests.Response) -> str:
    """Return the service's message in a refusal."""
    try:
        about = answer.json()
    except requests.JSONDecodeError:
        return ""
    error = about.get("error") if isinstance(about, Mapping) else None
    return str(error.get("message", ""))[:200] if isinstance(error, Mapping) else ""
