"""Reads ``ms.source.uri`` of an SFTP source: server and path (docs/sftp.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

from connectors.address import AddressError
from connectors.files.names import filled
from connectors.sftp.section import SftpSection
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.sections.source import SourceSection
from dil.text.origins import NetworkOrigin, refuse_other_origin, refuse_way_out

_URI = re.compile(r"sftp://(?P<authority>[^/]*)(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(
    r"(?:(?P<user>[^@]*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@\[\]]*)(?::(?P<port>\d{1,5}))?"
)
_HIGHEST_PORT = 65535
DEFAULT_PORT = 22


@dataclass(frozen=True, slots=True)
class SftpHost:
    """An SFTP server and its user; ``user`` is empty if the address names none."""

    host: str
    port: int
    user: str = ""

    @property
    def shown(self) -> str:
        """Return the server for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"sftp://{host}" if self.port == DEFAULT_PORT else f"sftp://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class SftpAddress:
    """A path on a server; a path without a leading slash starts at the user's folder."""

    server: SftpHost
    path: str

    @property
    def shown(self) -> str:
        """Return the address for messages."""
        return f"{self.server.shown}/{self.path.lstrip('/')}"


def address_of(
    template: str, variables: Mapping[str, JsonValue], default: SftpHost, hosts: Iterable[str] = ()
) -> SftpAddress:
    """Return the address in a template.

    In an ``sftp://`` address, escapes such as ``%20`` are decoded in the template, but not in
    values of variables. Without ``sftp://`` the whole text is the path.

    Args:
        template: ``ms.source.uri``.
        variables: Values for ``{{name}}``.
        default: The host, port and user to use if the template does not name them.
        hosts: Other servers that values may name.

    Raises:
        AddressError: the template is no address, or names no server.
        ConfigError: a variable has no value, or its value leads out of the folder or to another
            server.
    """
    refuse_way_out(template, variables)
    match = _URI.fullmatch(template)
    if match is not None:
        authority = filled(match["authority"], variables)
        path = filled(unquote(match["path"]), variables)
    else:
        text = filled(template, variables)
        match = _URI.fullmatch(text)
        authority, path = (match["authority"], match["path"]) if match else ("", text)
    text = f"sftp://{authority}/" if match else ""
    refuse_other_origin(template, text, partial(_origin, default=default), hosts)
    server = server_of(authority, default)
    if not path.strip("/"):
        path = "/" if path else "."
    return SftpAddress(server, re.sub(r"\A/+", "/", path))


def _origin(text: str, default: SftpHost) -> NetworkOrigin:
    match = _URI.fullmatch(text)
    server = server_of(match["authority"] if match else "", default)
    port = None if server.port == DEFAULT_PORT else server.port
    return NetworkOrigin("sftp", server.host.lower(), port, server.user)


def default_server(properties: Properties) -> SftpHost:
    """Return the server to use if ``ms.source.uri`` names none."""
    sftp, user = properties.section(SftpSection), properties.section(SourceSection).username
    return SftpHost(sftp.host, sftp.port, user.reveal() if user else "")


def server_of(authority: str, default: SftpHost) -> SftpHost:
    """Return the server that a text of the form ``user@host:port`` names.

    Raises:
        AddressError: the text has another form.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise AddressError(
            f'has "{authority.rpartition("@")[2]}" in place of a host and a port',
            "Write sftp://<host>:<port>/<path>.",
        )
    user = match["user"] or ""
    if ":" in user:
        raise AddressError(
            "has a password in the address",
            "Write the password into source.conn.password, as a secret.",
        )
    port = int(match["port"]) if match["port"] else default.port
    if not 0 < port <= _HIGHEST_PORT:
        raise AddressError(f"has the port {port}", "Write a port from 1 to 65535.")
    host = match["host"].strip("[]") or default.host
    if not host:
        raise AddressError(
            "names no server", "Write sftp://<host>/<path>, or give source.conn.host."
        )
    return SftpHost(host, port, unquote(user) or default.user)
