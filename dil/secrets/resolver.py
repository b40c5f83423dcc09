"""One secret value as a job file may write it: plain, ENC(...), env:NAME or file:PATH."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dil.model.secret import Secret

_ENCRYPTED = re.compile(r"ENC\((.*)\)", re.DOTALL)
_ENVIRONMENT = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_FILE = re.compile(r"file:(?://(?:localhost)?(?=/))?(.+)", re.DOTALL)


class SecretError(ValueError):
    """A secret cannot be resolved; ``fix`` says what to do. Neither text holds the secret."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix


def is_reference(text: str) -> bool:
    """Tell whether a text stands for a secret: ENC(...), env:NAME or file:PATH, as a whole."""
    return any(form.fullmatch(text) for form in (_ENCRYPTED, _ENVIRONMENT, _FILE))


@dataclass(frozen=True, slots=True, repr=False)
class SecretResolver:
    """Turns texts into Secrets.

    ``passwords`` are tried in order (behaviour.md B2.5), ``strong`` chooses the algorithm of
    B2.4, ``folder`` is where relative ``file:`` paths start.
    """

    environ: Mapping[str, str]
    folder: Path
    passwords: tuple[str, ...] = ()
    strong: bool = False

    def resolve(self, text: str) -> Secret:
        """Return the secret that a text stands for; plain text stands for itself.

        Raises:
            SecretError: unknown variable, unreadable file, no or no fitting master password.
        """
        if match := _ENCRYPTED.fullmatch(text):
            return self._decrypted(match[1])
        if match := _ENVIRONMENT.fullmatch(text):
            return self._from_environment(match[1])
        if match := _FILE.fullmatch(text):
            return self._from_file(match[1])
        return Secret(text)

    def _decrypted(self, cipher_text: str) -> Secret:
        if not self.passwords:
            raise SecretError(
                "is ENC(...) and there is no master password",
                "Name the file that holds it in encrypt.key.loc.",
            )
        # Loading cryptography takes longer than planning; few jobs need it.
        from dil.secrets.legacy import decrypt

        reason = ""
        for password in self.passwords:
            try:
                return Secret(decrypt(cipher_text, password, strong=self.strong))
            except ValueError as error:
                reason = str(error)
        raise SecretError(
            f"cannot be decrypted: {reason}",
            "Check encrypt.key.loc, and encrypt.use.strong.encryptor "
            f"(now {str(self.strong).lower()}).",
        )

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
