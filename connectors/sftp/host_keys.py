"""Checks by the host key that the answering server is the intended one (rule S10)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import paramiko

from connectors.sftp.address import DEFAULT_PORT, SftpHost
from dil.errors import AuthenticationError, ConfigError

_KEY = "source.conn.known.hosts"
_OWN_FILE = "~/.ssh/known_hosts"
_SWITCH = "To trust any server that answers, set ms.sftp.host.key.check=false."
_RSA = ("rsa-sha2-512", "rsa-sha2-256")


@dataclass(frozen=True, slots=True)
class HostKeyRules:
    """The rules for checking that a server is the intended one.

    ``known_hosts`` is a file in OpenSSH's form; empty means the file of the user who runs the task.
    """

    checks: bool
    known_hosts: str
    fingerprint: str


class KnownHost:
    """The known keys of one server.

    Raises:
        ConfigError: the file of known hosts cannot be read.
    """

    def __init__(self, rules: HostKeyRules, server: SftpHost) -> None:
        self._rules = rules
        self._server = server
        self._name = server.host
        if server.port != DEFAULT_PORT:
            self._name = f"[{server.host}]:{server.port}"
        self._shown = rules.known_hosts or _OWN_FILE
        self._path = Path(self._shown).expanduser()
        self._keys: dict[str, list[paramiko.PKey]] = {}
        self._revoked: frozenset[str] = frozenset()
        if rules.checks and not rules.fingerprint:
            self._read()

    def order(self, offered: Sequence[str]) -> list[str]:
        """Return the kinds of keys to request from the server, the known kinds first."""
        known = [kind for name in self._keys for kind in (_RSA if name == "ssh-rsa" else (name,))]
        return [*(kind for kind in offered if kind in known),
                *(kind for kind in offered if kind not in known)]  # fmt: skip

    def check(self, key: paramiko.PKey) -> None:
        """Raise if a server's host key is not a known key, unless the rules turn the check off.

        Raises:
            AuthenticationError: the server's key is unknown, or differs from the known key.
        """
        if not self._rules.checks:
            return
        found = f"{key.get_name()} {key.fingerprint}"
        if self._rules.fingerprint:
            if key.fingerprint != self._rules.fingerprint.rstrip("="):
                raise AuthenticationError(
                    f"{self._server.shown}: the server's host key is {found}, and"
                    f" ms.sftp.host.key.fingerprint is {self._rules.fingerprint}",
                    "Somebody may stand between, or the server has a new key: ask its owner.",
                )
            return
        if key.get_base64() in self._revoked:
            raise AuthenticationError(
                f"{self._server.shown}: the host key {found} is revoked in {self._shown}",
                "Ask the owner of the server for its new key.",
            )
        known = self._keys.get(key.get_name(), [])
        if not known:
            line = f"{self._name} {key.get_name()} {key.get_base64()}"
            raise AuthenticationError(
                f"{self._server.shown}: the host key {found} is not known",
                f"Make sure that it is the server's own, then add this line to {self._shown}:"
                f" {line} (or set ms.sftp.host.key.fingerprint={key.fingerprint}). {_SWITCH}",
            )
        if key.asbytes() not in [each.asbytes() for each in known]:
            has = " and ".join(each.fingerprint for each in known)
            raise AuthenticationError(
                f"{self._server.shown}: the server's host key is {found}, and {self._shown} has"
                f" {has}",
                "Somebody may stand between, or the server was set up anew: ask its owner, then"
                f" replace the line of {self._name}.",
            )

    def _read(self) -> None:
        """Read the entries of the server; a missing default file has no entries."""
        try:
            text = self._path.read_text("utf-8", "replace")
        except FileNotFoundError:
            if self._rules.known_hosts:
                raise self._unreadable("there is no such file") from None
            return
        except OSError as error:
            raise self._unreadable(error.strerror or type(error).__name__) from None
        revoked = set()
        for line in text.splitlines():
            words = line.split()
            if words[:1] == ["@revoked"]:
                revoked.update(words[3:4])
            elif words and not words[0].startswith(("#", "@")):
                # A damaged line is skipped.
                with suppress(paramiko.SSHException, paramiko.hostkeys.InvalidHostKey, ValueError):
                    entry = paramiko.hostkeys.HostKeyEntry.from_line(" ".join(words))
                    if entry is not None and _means(entry.hostnames, self._name):
                        self._keys.setdefault(entry.key.get_name(), []).append(entry.key)
        self._revoked = frozenset(revoked)

    def _unreadable(self, why: str) -> ConfigError:
        server, path = self._server, self._path
        port = "" if server.port == DEFAULT_PORT else f"-p {server.port} "
        return ConfigError.single(
            _KEY,
            f"names {path}, which cannot be read ({why})",
            "Put the file on every machine that runs tasks. Write it with `ssh-keyscan"
            f" {port}{server.host} > {path}`, and make sure that the key is the server's own."
            f" {_SWITCH}",
        )


def _means(patterns: Sequence[str], name: str) -> bool:
    """Return whether the names of a line, hashed or with wildcards, match a host (man sshd)."""
    found = False
    for pattern in patterns:
        if pattern.startswith("|"):
            found |= paramiko.HostKeys.hash_host(name, pattern) == pattern
            continue
        wanted = re.escape(pattern.lstrip("!")).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(wanted, name, re.IGNORECASE):
            if pattern.startswith("!"):
                return False
            found = True
    return found
