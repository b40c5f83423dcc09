"""Fetches tokens by the grants of method oauth2 of ``ms.authentication``; runs on the driver.

The grants are client credentials (RFC 6749 section 4.4), refresh token (section 6) and password
(section 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from connectors.http.refresh_tokens import RefreshTokenFile
from connectors.http.settings import HttpSettings, SessionEnvironment
from connectors.http.token_endpoint import Denied, Granted, TokenEndpoint
from dil.errors import AuthenticationError
from dil.model.authentication import Authentication
from dil.model.job import Job, KeySpec
from dil.model.secret import Secret
from dil.secrets import learn
from dil.spi.coordination import Credential, CredentialSource

log = logging.getLogger(__name__)
_USED_UP = "invalid_grant"
_FIXES: Mapping[str, str] = {
    "invalid_client": "Check clientId and clientSecret of ms.authentication, and its"
    " clientAuthentication (basic or body).",
    "unauthorized_client": "The server does not allow this grant for this client; ask the server's"
    " owner.",
    "unsupported_grant_type": "The server does not know this grant; check grant and tokenUri of"
    " ms.authentication.",
    "invalid_scope": "Check scope of ms.authentication.",
    "invalid_request": "Check scope, audience and parameters of ms.authentication; the server"
    " lacks or refuses a member.",
}
_GRANT_FIXES: Mapping[str | None, str] = {
    "password": "Check source.conn.username and source.conn.password.",
    "refresh_token": "The refresh token has expired, was revoked or is used up: authorize the"
    " client again and write the new token into refreshTokenFile of ms.authentication, or into"
    " refreshToken if there is no such file.",
}


class OAuthSource(CredentialSource):
    """Fetches tokens by one grant."""

    def __init__(
        self, settings: HttpSettings, keys: KeySpec, environment: SessionEnvironment | None = None
    ) -> None:
        if settings.authentication is None:
            raise AssertionError("a job without ms.authentication needs no token")
        self._grant: Authentication = settings.authentication
        self._settings = settings
        self._endpoint = TokenEndpoint(settings, environment or SessionEnvironment())
        path = self._grant.refresh_token_file
        self._file = RefreshTokenFile(path, keys) if path else None
        self._refresh = self._grant.refresh_token
        self._unsaved: Secret | None = None
        self._has_warned = False

    @classmethod
    def of(cls, job: Job) -> OAuthSource:
        """Return the source of tokens for a job whose method is oauth2."""
        return cls(HttpSettings.of(job), job.keys)

    def fetch(self) -> Credential:
        """Return a new token; if the server sends a new refresh token too, store it durably first.

        Raises:
            AuthenticationError: the server refused the grant, or a file cannot be used.
            TransientSourceError: the server did not answer after several tries.
            SourceError: the server's certificate is not trusted, or the request cannot be sent.
        """
        if self._grant.grant == "client_credentials":
            return self._credential(self._endpoint.ask({"grant_type": "client_credentials"}))
        if self._grant.grant == "password":
            nothing = Secret("")
            form: dict[str, str | Secret] = {
                "grant_type": "password",
                "username": self._settings.username or nothing,
                "password": self._settings.password or nothing,
            }
            return self._credential(self._endpoint.ask(form))
        if self._file is None:
            return self._credential(self._refreshed(self._refresh))
        with self._file.locked():
            return self._credential(self._refreshed_by_file(self._file))

    def _refreshed(self, refresh: Secret | None) -> Granted | Denied:
        """Return the server's answer to a refresh token; warn if no file can keep the next one."""
        if refresh is None:
            raise AuthenticationError(
                f"{self._file} holds no refresh token, and ms.authentication has no refreshToken",
                "Authorize the client and write its refresh token into the file.",
            )
        found = self._endpoint.ask({"grant_type": "refresh_token", "refresh_token": refresh})
        new = found.refresh if isinstance(found, Granted) else None
        if self._file is None and new is not None and new != refresh:
            self._refresh = new
            self._warn_of_loss("and refreshTokenFile names no file for it")
        return found

    def _refreshed_by_file(self, file: RefreshTokenFile) -> Granted | Denied:
        """Return the server's answer to the file's refresh token; keep the next one there."""
        before = file.read()
        used = self._unsaved or before or self._refresh
        found = self._refreshed(used)
        if isinstance(found, Denied) and found.reason == _USED_UP:
            # A run on another machine may have used up the token and written its successor.
            meanwhile = file.read()
            if meanwhile is not None and meanwhile != used:
                before, used = meanwhile, meanwhile
                found = self._refreshed(used)
        if isinstance(found, Granted) and found.refresh is not None and found.refresh != before:
            try:
                file.replace(before, found.refresh)
                self._unsaved = None
            except OSError as error:
                # The old token is used up, but the new one works: at least this run can continue.
                self._unsaved = found.refresh
                self._warn_of_loss(f"and {file} cannot be written ({error.strerror})")
        return found

    def _warn_of_loss(self, why: str) -> None:
        if not self._has_warned:
            log.warning(
                "the server gave a new refresh token, %s: the next run will be refused", why
            )
            self._has_warned = True

    def _credential(self, found: Granted | Denied) -> Credential:
        if isinstance(found, Denied):
            is_of_grant = found.reason in {_USED_UP, "access_denied"}
            by_grant = _GRANT_FIXES.get(self._grant.grant, "") if is_of_grant else ""
            fix = by_grant or _FIXES.get(found.reason, "Check tokenUri and ms.authentication.")
            raise AuthenticationError(found.message, fix)
        learn(found.token)
        if found.refresh is not None:
            learn(found.refresh)
        margin = self._grant.expiry_margin_s
        return Credential(found.token, found.lifetime_s, None if margin is None else float(margin))
