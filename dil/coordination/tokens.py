"""Keeps one token for all tasks: one thread at a time fetches it, and renews it before its end."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable

from dil.errors import AuthenticationError, DilError, TransientSourceError
from dil.model.secret import Secret
from dil.secrets import learn
from dil.spi.coordination import Credential, CredentialSource
from dil.spi.plugin_failures import plugin_failure

log = logging.getLogger(__name__)
_MARGIN_SHARE = 0.1
_LEAST_MARGIN_S = 30.0
_AGAIN_S = 30.0


class TokenKeeper:
    """Keeps the present valid token; many threads may use it.

    If one thread fails to fetch a token, the threads that waited for the token get the same error
    and do not try themselves. A refused grant stays refused for the rest of the run, because
    further tries may lock the account.

    Args:
        source: Fetches tokens; never called twice at the same time.
        clock: Returns the seconds of a clock that never goes back.
    """

    def __init__(self, source: CredentialSource, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Secret | None = None
        self._renew_at = 0.0
        self._ends_at = 0.0
        self._rejected: set[bytes] = set()
        self._flights = 0
        self._failure: DilError | None = None

    def token(self, rejected: Secret | None = None) -> Secret:
        """Return a token that is valid for some time, never one that was rejected.

        Raises:
            AuthenticationError: the grant was refused, or the source refuses every token.
            TransientSourceError: the server of tokens did not answer; another try may help.
        """
        flights = self._flights
        with self._lock:
            if rejected is not None:
                self._rejected.add(_mark(rejected))
            token = self._good(self._renew_at)
            if token is not None:
                return token
            if self._failure is not None and (
                self._flights != flights or isinstance(self._failure, AuthenticationError)
            ):
                raise self._failure
            return self._fetched()

    def _good(self, until: float) -> Secret | None:
        """Return the present token, None if it was rejected or has expired."""
        if self._token is None or _mark(self._token) in self._rejected or self._clock() >= until:
            return None
        return self._token

    def _fetched(self) -> Secret:
        self._failure = None
        try:
            credential = self._from_source()
        except TransientSourceError as error:
            token = self._good(self._ends_at)
            if token is None:
                self._failure = error
                raise
            # A token is renewed early, so that a short outage of its server does no harm.
            log.warning("the token could not be renewed and is still used: %s", error.message)
            self._renew_at = min(self._ends_at, self._clock() + _AGAIN_S)
            return token
        except DilError as error:
            self._failure = error
            raise
        finally:
            self._flights += 1
        self._token = credential.token
        lifetime = credential.lifetime_s
        if lifetime is None:
            self._renew_at = self._ends_at = float("inf")
        else:
            margin = credential.margin_s
            if margin is None:
                margin = max(_LEAST_MARGIN_S, lifetime * _MARGIN_SHARE)
            self._ends_at = self._clock() + lifetime
            self._renew_at = self._ends_at - min(margin, lifetime / 2)
        return credential.token

    def _from_source(self) -> Credential:
        try:
            credential = self._source.fetch()
        except DilError:
            raise
        except Exception as error:
            name = type(self._source).__qualname__
            raise plugin_failure(name, error) from error
        learn(credential.token)
        if _mark(credential.token) in self._rejected:
            raise AuthenticationError(
                "the source refused a token, and the same token was issued again",
                "Check the token's rights, and that it is issued for this source.",
            )
        return credential


def _mark(token: Secret) -> bytes:
    """Return the mark of a token; the tokens themselves are not stored."""
    return hashlib.sha256(token.reveal().encode()).digest()
