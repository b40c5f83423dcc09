"""Resolves a secret as a job file writes it: plain, ENC(...), env:NAME, file:PATH, a plug-in's.

The files of master passwords are read here, too (rule S3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import BinaryIO, TypeVar

from dil.model.messages import nearest_word
from dil.model.secret import Secret
from dil.secrets.forms import (
    ENCRYPTED,
    ENVIRONMENT,
    FILE,
    VERSIONS,
    is_encrypted,
    is_reference,
    version_of,
)
from dil.spi.secret_resolver import ReferenceResolver, UnresolvedReferenceError

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
    that this was already reported. ``plugged`` are the resolvers of other references by prefix,
    such as ``vault``; each reference is resolved once.
    """

    environ: Mapping[str, str]
    folder: Path
    passwords: tuple[str, ...] = ()
    strong: bool = False
    missing: tuple[str, ...] = ()
    is_unread: bool = False
    plugged: Mapping[str, ReferenceResolver] = field(default_factory=dict)
    _found: dict[str, Secret] = field(default_factory=dict, compare=False)

    def is_reference(self, text: str) -> bool:
        """Return whether a text has one of the forms in which the job knows secrets."""
        return is_reference(text) or self._is_plugged(text)

    def is_costly(self, text: str) -> bool:
        """Return whether a secret takes long to get: a key must be derived, or a server asked."""
        return is_encrypted(text) or (not is_reference(text) and self._is_plugged(text))

    def nearest_prefix(self, text: str) -> str:
        """Return the known prefix nearest to the prefix of a plain text; empty if none is near."""
        prefix, colon, _ = text.partition(":")
        return nearest_word(prefix, ("env", "file", *self.plugged)) if colon else ""

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
        if self._is_plugged(text):
            return self._from_plugin(text)
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
            prefix, _, reference = text.partition(":")
            _called(prefix, self.plugged[prefix].check, reference)
        else:
            self.resolve(text)

    def _is_plugged(self, text: str) -> bool:
        prefix, colon, _ = text.partition(":")
        return bool(colon) and prefix in self.plugged

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
        # Loading cryptography takes longer than planning; few jobs need it.
        from dil.secrets import authenticated, legacy

        reason = ""
        for password in self.passwords:
            try:
                if version_of(cipher_text):
                    plain = authenticated.decrypt(cipher_text, password, purpose)
                else:
                    plain = legacy.decrypt(cipher_text, password, strong=self.strong)
            except authenticated.PurposeError as error:
                raise SecretError(
                    f"is ENC(...) that was encrypted for {error.purpose} and opens only there",
                    f"Encrypt the secret again: dil secrets encrypt --for {purpose or 'PROPERTY'}.",
                ) from None
            except ValueError as error:
                reason = str(error)
            else:
                return Secret(plain)
        fix = "Check encrypt.key.loc, or encrypt the secret again: dil secrets encrypt."
        if not version_of(cipher_text):
            fix = (
                "Check encrypt.key.loc, and encrypt.use.strong.encryptor "
                f"(now {str(self.strong).lower()})."
            )
        raise SecretError(f"cannot be decrypted: {reason}", fix)

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

    def _from_plugin(self, text: str) -> Secret:
        if text not in self._found:
            prefix, _, reference = text.partition(":")
            found: object = _called(prefix, self.plugged[prefix].resolve, reference)
            if not isinstance(found, str):
                raise SecretError(
                    f"is a reference for {prefix}, which gave {type(found).__name__} and no text",
                    "Mend the resolver: it has to return a str.",
                )
            self._found[text] = Secret(found)
        return self._found[text]


def _called(prefix: str, method: Callable[[str], T], reference: str) -> T:
    """Call a resolver of the user's own; raise its errors as SecretError."""
    try:
        return method(reference)
    except UnresolvedReferenceError as error:
        raise SecretError(error.what, error.fix) from error
    except Exception as error:
        # The text of a foreign exception may hold the secret, or the token that opens it.
        place = extract_tb(error.__traceback__)[-1]
        raise SecretError(
            f"is a reference for {prefix}, whose resolver failed ({type(error).__name__})",
            f"Mend the resolver: {place.filename}, line {place.lineno}, raised it.",
        ) from error


def master_password_files(path: str, count: int) -> tuple[str, ...]:
    """Return the ``count`` files that may hold master passwords: ``path``, ``path.1``, ..."""
    return (path, *(f"{path}.{index}" for index in range(1, count)))


def read_master_passwords(
    path: str, count: int, opened: Callable[[str], BinaryIO]
) -> tuple[str, ...]:
    """Return the first line of each existing file of ``count`` files: ``path``, ``path.1``, ...

    ``opened`` opens a file for reading, as ``Filesystem.open_input`` does.

    Raises:
        OSError: a file exists and cannot be read.
        ValueError: a file is not UTF-8 text, or its first line is empty.
    """
    found = []
    for name in master_password_files(path, count):
        try:
            with opened(name) as stream:
                data = stream.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            line = data.decode("utf-8").split("\n", 1)[0].removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not UTF-8 text") from error
        if not line:
            raise ValueError(f"the first line of {name} is empty")
        found.append(line)
    return tuple(found)
