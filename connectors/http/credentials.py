"""Credentials that change during a session: authentication input, a grant's token (rule S11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connectors.http.environment import SessionEnvironment
from connectors.http.settings import HttpSettings
from dil.model.secret import Secret
from dil.secrets import learn
from dil.spi.connector import RequestValues

_UNAUTHORIZED = 401


class Credentials:
    """The credentials that a session's requests need and that are not in the job file.

    Fields of a renewed authentication input apply to all later requests. The session keeps only the
    last token; the coordinator hands out the valid token. ``has_grant`` is true if the job fetches
    tokens by a grant.
    """

    def __init__(self, settings: HttpSettings, environment: SessionEnvironment) -> None:
        authentication = settings.authentication
        self.has_grant = authentication is not None and authentication.is_fetched
        self._stale = frozenset(settings.statuses.pagination_error)
        self._environment = environment
        self._fields: Mapping[str, str] = {}
        self._token: Secret | None = None
        self._rejected: Secret | None = None

    def overlaid(self, values: RequestValues) -> RequestValues:
        """Return the values of a request, with renewed fields in place of old ones."""
        if not self._fields:
            return values
        sent = {name: self._fields.get(name, value) for name, value in values.parameters.items()}
        return replace(values, variables={**values.variables, **self._fields}, parameters=sent)

    def token(self) -> Secret | None:
        """Return the token to send; None for a job without a grant.

        Raises:
            AuthenticationError: no token can be fetched.
        """
        if not self.has_grant:
            return None
        self._token = self._environment.coordinator.credential(self._rejected)
        self._rejected = None
        return self._token

    def is_token_refused(self, status: int) -> bool:
        """Return whether an answer refuses the token of a grant."""
        return self.has_grant and status == _UNAUTHORIZED

    def reject_token(self) -> None:
        """Never send the last token again; the next request fetches another one."""
        self._rejected = self._token

    def is_input_stale(self, status: int) -> bool:
        """Return whether an answer means that the authentication input must be read again."""
        return self._environment.renewed is not None and status in self._stale

    def renew_input(self) -> None:
        """Read the authentication input again, and use its fields from now on."""
        if self._environment.renewed is not None:
            found = self._environment.renewed()
            for secret in found.values():
                learn(secret)  # No job file names this value, and no message may print it.
            self._fields = {name: secret.reveal() for name, secret in found.items()}
