"""What the readers of properties need beside the values: secrets, the zone, a place for notices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dil.model.secret import Secret
from dil.secrets import SecretError, SecretResolver, is_encrypted
from dil.spi.reading import ShapeError
from dil.storage.locations import local_path


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job file is: its name as given and its absolute folder; and the environment."""

    path: str
    folder: Path
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a reader needs beside the value: secrets, the job's zone, a place for notices.

    ``file_system`` is the file system of paths that name none, empty for this machine.
    ``key`` is the property that is read, for which its ENC(v2:...) was encrypted.

    With ``needs_secrets`` off ENC(...) is not decrypted, which takes long on purpose, and a secret
    that cannot be read is empty, with a notice.
    """

    resolver: SecretResolver
    zone: str
    notice: Callable[[str, str], None]
    needs_secrets: bool = True
    file_system: str = ""
    key: str = ""

    def secret(self, text: str, where: str = "", *, is_always_read: bool = False) -> Secret:
        """Return the secret a text stands for; ``is_always_read`` decrypts it in any case.

        Raises:
            ShapeError: it cannot be resolved.
        """
        try:
            if self.needs_secrets or is_always_read or not is_encrypted(text):
                return self.resolver.resolve(text, self.key)
            self.resolver.check(text)
        except SecretError as error:
            what = f"{where} {error.what}".strip()
            if self.needs_secrets:
                raise ShapeError((what, error.fix)) from error
            self.notice(f"{what}; a run would refuse it", error.fix)
        return Secret("")

    @property
    def folder(self) -> Path:
        """Return where relative paths start."""
        return self.resolver.folder

    def local_path(self, text: str) -> str:
        """Return the absolute path of this machine that a text names."""
        return str(local_path(text, self.folder))

    def require_password(self, what: str) -> None:
        """Refuse a value that nothing can be encrypted for: there is no master password.

        Raises:
            ShapeError: with ``what`` in front; a notice where secrets are not needed.
        """
        if self.resolver.passwords:
            return
        missing = " and ".join(self.resolver.missing)
        reason = f"{what}, and there is no master password"
        reason += f": {missing} cannot be found" if missing else ""
        fix = "Name the file that holds the master password in encrypt.key.loc."
        if self.needs_secrets:
            raise ShapeError((reason, fix))
        self.notice(f"{reason}; a run would refuse it", fix)
