"""Reads the private key of an SFTP user, from a file or from the text of the key."""

from __future__ import annotations

import io
from pathlib import Path

import paramiko

from dil.errors import ConfigError
from dil.model.secret import Secret

_KEY = "source.conn.private.key"
_BEGIN = "-----BEGIN"
_LONGEST_PATH = 250
_PUTTY = "PuTTY-User-Key-File"
_KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def private_key(given: Secret, passphrase: Secret | None) -> paramiko.PKey:
    """Return the private key, decrypted with the passphrase.

    Raises:
        ConfigError: the file does not exist, it is no key, or its passphrase is missing or wrong.
    """
    text = given.reveal()
    if not text.lstrip().startswith(_BEGIN):
        text = _content(text.strip())
    if _PUTTY in text:
        raise _problem(
            "is a key in PuTTY's format",
            "Convert the key: puttygen KEY.ppk -O private-openssh -o KEY",
        )
    password = passphrase.reveal() if passphrase else None
    for kind in _KINDS:
        try:
            return kind.from_private_key(io.StringIO(text.strip() + "\n"), password)
        except paramiko.PasswordRequiredException:
            fix = "Write the key's passphrase into ms.sftp.private.key.passphrase, as a secret."
            raise _problem("is encrypted", fix) from None
        except (paramiko.SSHException, ValueError, IndexError, TypeError):
            continue
    if passphrase:
        what = "is no private key, or its passphrase is another one"
        raise _problem(what, "Check ms.sftp.private.key.passphrase with: ssh-keygen -y -f KEY")
    raise _problem("is no private key", "Write the path of a key that ssh-keygen made.")


def _content(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8", "replace")
    except OSError as error:
        why = error.strerror or type(error).__name__
        # The message does not repeat a text that may be a key without its first line; such a text
        # begins with a letter.
        is_begun = path.startswith(("/", "~", "./", "../"))
        is_path = is_begun and len(path) <= _LONGEST_PATH and "\n" not in path
        shown = f": {path}" if is_path else ""
        raise _problem(
            f"names a file that cannot be read ({why}){shown}",
            "Copy the file to every executor, readable for the user that runs the task. Or set"
            f" the key itself: {_KEY}=file:<path beside the job file>, env:<name> or ENC(...).",
        ) from None


def _problem(what: str, fix: str) -> ConfigError:
    return ConfigError.single(_KEY, what, fix)
