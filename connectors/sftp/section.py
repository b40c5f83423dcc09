"""The properties of SFTP, and the places of key files."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from dil.model.secret import Secret
from dil.model.section import Bool, Int, SecretText, Section, Text, ValueType, Written, prop
from dil.sections.reading import ReadContext, note_missing

# A key, or a key without its first line; a message must not show either as a path.
_KEY_ITSELF = re.compile(r"PuTTY-User-Key-File|.*-----|[A-Za-z0-9+/=\s]{40,}$")
_LONGEST_PATH = 4096


def _key_file(text: str, around: ReadContext) -> str:
    """Return the absolute path of a file that tasks open."""
    path = text
    # A path with ~ stays unchanged: it is the home of the user that runs the task. A text that is
    # no path on any machine stays too; opening it fails later as a missing file.
    with suppress(ValueError):
        path = around.local_path(text)
    note_missing(path, around.notice)
    return path


def _private_key(value: Secret, around: ReadContext) -> Secret:
    """Return the key itself, or the absolute path of its file."""
    line = value.reveal().strip()
    is_path = line and "\n" not in line and len(line) <= _LONGEST_PATH
    if not is_path or _KEY_ITSELF.match(line):
        return value
    return Secret(_key_file(line, around))


_PrivateKey = Annotated[Secret, Written(ValueType.STRING, secret=True, read=_private_key)]
_KnownHosts = Annotated[str, Written(ValueType.STRING, read=_key_file)]


@dataclass(frozen=True, slots=True)
class SftpSection(Section):
    """The properties of SFTP in a job."""

    host: Text = prop(
        "source.conn.host",
        "Host of an SFTP source, if `ms.source.uri` names none.",
        default="",
    )
    port: Annotated[Int, Ge(1), Le(65535)] = prop(
        "source.conn.port",
        "Port of an SFTP source, if `ms.source.uri` names none.",
        default=22,
        identity=False,
    )
    private_key: _PrivateKey | None = prop(
        "source.conn.private.key",
        "Private key of an SFTP source: the path of its file on every executor, or the key "
        "itself (`file:`, `env:`, `ENC(...)`). A relative path starts at the job file's "
        "folder.",
        default=None,
    )
    known_hosts: _KnownHosts = prop(
        "source.conn.known.hosts",
        "File with the host keys of SFTP servers, in the form of OpenSSH; left out, "
        "`~/.ssh/known_hosts` of the user that runs the task. A relative path starts at the "
        "job file's folder.",
        default="",
        identity=False,
    )
    passphrase: SecretText | None = prop(
        "ms.sftp.private.key.passphrase",
        "Passphrase of `source.conn.private.key`.",
        default=None,
    )
    fingerprint: Text = prop(
        "ms.sftp.host.key.fingerprint",
        "Fingerprint of the SFTP server's host key, as `ssh-keygen -l` shows it: `SHA256:...`; "
        "takes the place of `source.conn.known.hosts`.",
        default="",
        identity=False,
    )
    checks_host_key: Bool = prop(
        "ms.sftp.host.key.check",
        "Whether the SFTP server must show a known host key. If this is off, DIL trusts any"
        " server that answers, and sends it the password.",
        default=True,
        identity=False,
    )
    timeout_ms: Annotated[Int, Ge(0)] = prop(
        "ms.sftp.conn.timeout.millis",
        "Milliseconds to wait for an answer of an SFTP source; 0 means no limit.",
        default=60_000,
        identity=False,
    )
