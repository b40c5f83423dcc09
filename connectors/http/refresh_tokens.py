"""Keeps the refresh token for the next run in a file that survives a crash at any moment.

A server that rotates refresh tokens accepts each of them once. So the file is locked from its
reading to its writing, the new token is durable before the access token is used, and a token that
another run wrote meanwhile is never overwritten.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dil.errors import AuthenticationError
from dil.model.job import KeySpec
from dil.model.secret import Secret
from dil.secrets import SecretError, SecretResolver, is_encrypted, learn
from dil.storage.replacing import replace_file

log = logging.getLogger(__name__)
_MODE = 0o600
_PURPOSE = "ms.authentication"  # The property that names the file.
_FIX = "Allow the job to read and write the file, and to create files beside it."


class RefreshTokenFile:
    """The file ``refreshTokenFile``: a line with the token, ``ENC(...)`` if a master key is set."""

    def __init__(self, path: str, keys: KeySpec) -> None:
        self._path = Path(path)
        self._keys = keys

    def __str__(self) -> str:
        return str(self._path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file against other runs on this machine; continue if the system has no locks.

        Raises:
            AuthenticationError: a new token could not be written, so none may be requested.
        """
        try:
            handle = os.open(f"{self._path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise self._problem("cannot be locked", error) from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError as error:
                log.warning(
                    "%s.lock cannot be locked; another run may use the token meanwhile: %s",
                    self._path,
                    error.strerror,
                )
            yield
        finally:
            os.close(handle)

    def read(self) -> Secret | None:
        """Return the token; None if the file is missing or empty.

        Raises:
            AuthenticationError: the file cannot be read or decrypted.
        """
        try:
            text = self._path.read_text("utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._problem("cannot be read", error) from None
        if not text:
            return None
        token = Secret(text)
        if is_encrypted(text):
            passwords = tuple(secret.reveal() for secret in self._keys.passwords)
            resolver = SecretResolver({}, self._path.parent, passwords, self._keys.strong)
            try:
                token = resolver.resolve(text, _PURPOSE)
            except SecretError as error:
                raise AuthenticationError(f"{self._path} {error.what}", error.fix) from None
        learn(token)
        return token

    def replace(self, expected: Secret | None, new: Secret) -> Secret:
        """Replace the expected token by a new one; return the token that the file holds afterwards.

        Raises:
            OSError: the file cannot be written.
            AuthenticationError: the file cannot be read or decrypted.
        """
        learn(new)
        found = self.read()
        if found is not None and found not in (expected, new):
            log.warning("another run has written %s meanwhile; its token is kept", self._path)
            return found
        text = new.reveal()
        if self._keys.passwords:
            # Imported here, because loading the module takes longer than requesting a token.
            from dil.secrets.authenticated import Encryptor

            text = Encryptor.of(self._keys.passwords[0].reveal()).encrypt(text, _PURPOSE)
        replace_file(self._path, f"{text}\n".encode(), mode=_MODE)
        folder = os.open(self._path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return new

    def _problem(self, what: str, error: OSError | UnicodeDecodeError) -> AuthenticationError:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return AuthenticationError(f"refreshTokenFile {self._path} {what}: {reason}", _FIX)
