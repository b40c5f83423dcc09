"""The SFTP connector. Importing it is quick: ``open`` loads the client library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from connectors.address import AddressError
from connectors.files.connector import FileConnector, FileSession, remote_file_problems
from connectors.files.once import UnitFile
from connectors.sftp.address import default_server, server_of
from connectors.sftp.section import SftpSection
from dil.errors import Problem
from dil.model.job import Job
from dil.model.properties import Properties
from dil.sections.source import PASSWORD, PROXY, URI, USER, SourceSection
from dil.text.variables import placeholders

_KEY = "source.conn.private.key"
_FINGERPRINT = "ms.sftp.host.key.fingerprint"
_SHA256 = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")
_OTHER = re.compile(r"(?!sftp:)[A-Za-z][A-Za-z0-9+.-]*://", re.IGNORECASE)


class SftpConnector(FileConnector):
    """Lists, reads and writes files, with one connection for each attempt (docs/sftp.md)."""

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the address, the login, and the properties of listing and sending."""
        return [
            *_uri_problems(properties),
            *_login_problems(properties),
            *remote_file_problems(properties),
        ]

    @classmethod
    def session(cls, job: Job, file: UnitFile | None) -> FileSession:
        """Return a session; it sends nothing before the first request."""
        from connectors.files.remote import RemoteFileSession
        from connectors.sftp.connection import SftpSettings
        from connectors.sftp.session import SftpFiles

        return RemoteFileSession(job, SftpFiles(SftpSettings.of(job)), file)


def _uri_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the problems of the address, as far as its variables allow a check."""
    uri = properties.section(SourceSection).uri
    authority = uri.partition("://")[2].partition("/")[0] if "://" in uri else ""
    if uri.startswith("{{") or placeholders(authority):
        if "://" not in uri and not properties.section(SftpSection).host:
            yield Problem(
                properties.origin(URI),
                URI,
                "names no server, unless its variable does",
                "Give source.conn.host.",
            )
        return
    if _OTHER.match(uri):
        yield Problem(
            properties.origin(URI),
            URI,
            "is no SFTP address",
            "Write sftp://<host>:<port>/<path>, or a path and source.conn.host.",
        )
        return
    try:
        server = server_of(authority, default_server(properties))
    except AddressError as error:
        yield Problem(properties.origin(URI), URI, error.what, error.fix)
        return
    if not server.user:
        yield Problem(
            properties.origin(USER), USER, "is missing", "Write the user name for the server."
        )


def _login_problems(properties: Properties) -> Iterator[Problem]:
    sftp, source = properties.section(SftpSection), properties.section(SourceSection)
    if not sftp.private_key and not source.password:
        yield Problem(
            properties.origin(_KEY),
            _KEY,
            f"and {PASSWORD} are both missing",
            "Set the one that the server requires, as a secret.",
        )
    if sftp.fingerprint and not _SHA256.fullmatch(sftp.fingerprint):
        yield Problem(
            properties.origin(_FINGERPRINT),
            _FINGERPRINT,
            f'is "{sftp.fingerprint}"',
            "Write the fingerprint in the form that ssh-keyscan -p <port> <host> | ssh-keygen -lf"
            " - prints: SHA256:<43 characters>.",
        )
    if source.proxy_host.lower().startswith(("https:", "socks")):
        yield Problem(
            properties.origin(PROXY),
            PROXY,
            "is a kind of proxy that SFTP does not support",
            "Name an HTTP proxy that supports CONNECT.",
        )
