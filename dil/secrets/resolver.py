"""Resolves a secret as a job file writes it: plain, ENC(...), env:NAME, file:PATH, a plug-in's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dil.model.secret import Secret
from dil.model.suggestions import nearest_word
from dil.secrets.forms import (
    ENCRYPTED,
    ENVIRONMENT,
    FILE,
    VERSIONS,
    is_encrypted,
    is_reference,
    version_of,
)
from dil.secrets.plugged import PluggedReferences
from dil.spi.secret_resolver import UnresolvedReferenceError

T = TypeVar("T")


class SecretError(ValueError):
    """A secret cannot be resolved; ``fix`` says what to do. Neither text holds the secret."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix


@dataclass(frozen=True, slots=True, repr=False)
class SecretResolver:
    """Turns texts into Secrets.

    ``passwords`` are tried in order (rule S3). ``strong`` chooses between the two algorithms
    of LinkedIn's DIL (rule S2); our own forms, such as ``ENC(v2:...)``, name their version.
    Relative ``file:`` paths start at ``folder``. ``missing`` are files that should hold a master
    password but do not exist. ``is_unread`` says that the master passwords could not be read, and
    that this was already reported. ``plugged`` resolves references with other prefixes.
    """

    environ: Mapping[str, str]
    folder: Path
    passwords: tuple[str, ...] = ()
    strong: bool = False
    missing: tuple[str, ...] = ()
    is_unread: bool = False
    plugged: PluggedReferences = field(default_factory=PluggedReferences)

    def is_reference(self, text: str) -> bool:
        """Return whether a text has one of the forms in which the job knows secrets."""
        return is_reference(text) or self.plugged.knows(text)

    def is_costly(self, text: str) -> bool:
        """Return whether a secret takes long to get: a key must be derived, or a server asked."""
        return is_encrypted(text) or (not is_reference(text) and self.plugged.knows(text))

    def nearest_prefix(self, text: str) -> str:
        """Return the known prefix nearest to the prefix of a plain text; empty if none is near."""
        prefix, colon, _ = text.partition(":")
        return nearest_word(prefix, ("env", "file", *self.plugged.resolvers)) if colon else ""

    def resolve(self, text: str, purpose: str = "") -> Secret:
        """Return the secret that a text means; plain text means itself.

        ``purpose`` is the property that the secret is for: ENC(v2:...) opens only for its own
        purpose.

        Raises:
            SecretError: the variable is unknown, the file is unreadable, the master password is
                missing or does not fit, or the text was encrypted for another purpose.
        """
        if match := ENCRYPTED.fullmatch(text):
            return self._decrypted(match[1], purpose)
        if match := ENVIRONMENT.fullmatch(text):
            return self._from_environment(match[1])
        if match := FILE.fullmatch(text):
            return self._from_file(match[1])
        if self.plugged.knows(text):
            return self._plugged(self.plugged.resolve, text)
        return Secret(text)

    def check(self, text: str) -> None:
        """Check a text as far as this is quick: nothing is decrypted, and no server is asked.

        Raises:
            SecretError: as ``resolve``, except for a master password or a purpose that does not
                fit.
        """
        if match := ENCRYPTED.fullmatch(text):
            self._check_encrypted(match[1])
        elif self.is_costly(text):
            self._plugged(self.plugged.check, text)
        else:
            self.resolve(text)

    def _plugged(self, method: Callable[[str], T], text: str) -> T:
        try:
            return method(text)
        except UnresolvedReferenceError as error:
            raise SecretError(error.what, error.fix) from error

    def _check_encrypted(self, cipher_text: str) -> None:
        if not self.passwords:
            what = "is ENC(...) and there is no master password"
            if not self.missing:
                raise SecretError(what, "Name the file that holds it in encrypt.key.loc.")
            verb = "does" if len(self.missing) == 1 else "do"
            raise SecretError(
                f"{what}: {' and '.join(self.missing)} {verb} not exist",
                "Correct encrypt.key.loc, or write the master password into the first line of that "
                "file. A relative path starts at the folder of the job file.",
            )
        version = version_of(cipher_text)
        if version not in VERSIONS:
            raise SecretError(
                f"is ENC(...) of version {version.removesuffix(':')}, which is not known",
                "Update dil, or encrypt the secret again: dil secrets encrypt.",
            )

    def _decrypted(self, cipher_text: str, purpose: str) -> Secret:
        self._check_encrypted(cipher_text)
        reason = ""
        for password in self.passwords:
            try:
                return Secret(self._plain(cipher_text, password, purpose))
            except SecretError:
                raise
            except ValueError as error:
                reason = str(error)
        fix = (
            "Check encrypt.key.loc, or encrypt the secret again: dil secrets encrypt."
            if version_of(cipher_text)
            else "Check encrypt.key.loc, and encrypt.use.strong.encryptor "
            f"(now {str(self.strong).lower()})."
        )
        raise SecretError(f"cannot be decrypted: {reason}", fix)

    def _plain(self, cipher_text: str, password: str, purpose: str) -> str:
        # Loading cryptography takes longer than planning; few jobs need it.
        from dil.secrets import authenticated, legacy

        if version_of(cipher_text):
            try:
                return authenticated.decrypt(cipher_text, password, purpose)
            except authenticated.PurposeError as error:
                raise SecretError(
                    f"is ENC(...) that was encrypted for {error.purpose} and opens only there",
                    f"Encrypt the secret again: dil secrets encrypt --for {purpose or 'PROPERTY'}.",
                ) from None
        return legacy.decrypt(cipher_text, password, strong=self.strong)

    def _from_environment(self, name: str) -> Secret:
        value = self.environ.get(name)
        if value is None:
            raise SecretError(
                f"names the environment variable {name}, which is not set",
                f"Set it before the run: export {name}=...",
            )
        return Secret(value)

    def _from_file(self, name: str) -> Secret:
        path = self.folder / name
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SecretError(
                f"names the file {name}, which cannot be read ({reason})",
                "A relative path starts at the folder of the job file.",
            ) from error
        except UnicodeDecodeError as error:
            raise SecretError(
                f"names the file {name}, which is not UTF-8 text", "Save the file in UTF-8."
            ) from error
        return Secret(text.rstrip("\r\n"))
