"""The context of property readers: secrets, the job's zone, its folder, a place for notices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dil.config.findings import Findings
from dil.model.secret import Secret
from dil.secrets import SecretError, SecretResolver, is_encrypted
from dil.sections.reading import ShapeError
from dil.storage.locations import PathError, any_path, local_path

_PASSWORD_IN_URL = re.compile(r"(?i)://[^/@\s]*:[^/@\s]+@|[?&;](?:password|pwd)=")


@dataclass(frozen=True, slots=True)
class JobFileLocation:
    """A job file's name as given, its absolute folder, and the environment."""

    path: str
    folder: Path
    environ: Mapping[str, str]


def _ignore(*_said: str) -> None:
    """Ignore a notice; ``at_entry`` gives the reader of a property another function."""


@dataclass(frozen=True, slots=True)
class JobReadContext:
    """The context of a property reader: secrets, the job's zone, a place for notices.

    ``file_system`` is the file system of paths that name none, empty for this machine. ``key`` is
    the property that is read; an ENC(v2:...) in it was encrypted for that key. ``plain`` is called
    if the property holds a secret in plain text.

    If ``needs_secrets`` is false, ENC(...) is not decrypted (decryption is slow on purpose), and no
    server is asked for a secret. A secret that cannot be read is then empty and gives a notice.
    """

    resolver: SecretResolver
    zone: str
    notice: Callable[[str, str], None] = _ignore
    needs_secrets: bool = True
    file_system: str = ""
    key: str = ""
    plain: Callable[[], None] = _ignore

    def secret(self, text: str, where: str = "", *, is_always_read: bool = False) -> Secret:
        """Return the secret that a text means; ``is_always_read`` decrypts it in any case.

        Raises:
            ShapeError: the secret cannot be resolved.
        """
        if not self.is_reference(text) and _is_written_out(self.key, text):
            if near := self.resolver.nearest_prefix(text):
                self.notice(
                    f'counts as a secret in plain text; its beginning is nearly "{near}:"',
                    f"Write {near}: for a reference, in lower case.",
                )
            else:
                self.plain()
        if self.resolver.is_unread and is_encrypted(text) and not is_always_read:
            return Secret("")  # another finding says why the secret is unread
        try:
            if self.needs_secrets or is_always_read or not self.resolver.is_costly(text):
                return self.resolver.resolve(text, self.key)
            self.resolver.check(text)
        except SecretError as error:
            what = f"{where} {error.what}".strip()
            if self.needs_secrets:
                raise ShapeError((what, error.fix)) from error
            self.notice(f"{what}; a run would refuse it", error.fix)
        return Secret("")

    def is_reference(self, text: str) -> bool:
        """Return whether a text refers to a secret, in any form that the job knows."""
        return self.resolver.is_reference(text)

    @property
    def folder(self) -> Path:
        """Return the folder where relative paths start."""
        return self.resolver.folder

    def local_path(self, text: str) -> str:
        """Return the absolute path of this machine that a text names."""
        return str(local_path(text, self.folder))

    def require_password(self, what: str) -> None:
        """Refuse a value that has to be encrypted if there is no master password.

        Raises:
            ShapeError: there is no master password; the message begins with ``what``. If secrets
                are not needed, a notice takes the place of the error.
        """
        if self.resolver.passwords or self.resolver.is_unread:
            return
        missing = " and ".join(self.resolver.missing)
        reason = f"{what}, and there is no master password"
        reason += f": {missing} cannot be found" if missing else ""
        fix = "Name the file that holds the master password in encrypt.key.loc."
        if self.needs_secrets:
            raise ShapeError((reason, fix))
        self.notice(f"{reason}; a run would refuse it", fix)


def _is_written_out(key: str, text: str) -> bool:
    """Return whether a text that is not a reference is a secret in plain form.

    Texts with variables, names of users and paths of keys are no secrets. A URL is a secret only if
    it has a password.
    """
    if not text or "{{" in text or key.endswith((".username", ".user")):
        return False
    if key.endswith((".url", ".uri")):
        return _PASSWORD_IN_URL.search(text) is not None
    return not (key.endswith(".key") and text.startswith(("/", "~")))


def path_of(
    text: str, name: str, folder: Path, findings: Findings, *, system: str | None = None
) -> str:
    """Return the value of a path property as an absolute path; empty text if it is unset.

    If ``system`` is None, the path is on this machine. Else the path may be elsewhere, and then
    begins with scheme and authority; ``system`` is the file system of a path that names none.
    """
    if not text:
        return ""
    try:
        if system is None:
            return str(local_path(text, folder))
        return any_path(text, folder, system)
    except PathError as error:
        findings.problem(name, str(error), error.fix)
        return ""
