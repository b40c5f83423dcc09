"""Reads HDFS over HTTP, without Java. Source: Apache Hadoop 3, "WebHDFS REST API"."""

from __future__ import annotations

import http
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import quote, urlencode

import requests
import urllib3

from connectors.files.body import FileStream
from connectors.hdfs.store import FileStatus, FileStore
from dil.errors import AuthenticationError, SourceError, TransientSourceError
from dil.storage.hdfs.failures import TLS_FIX, is_passing, is_standby, remote_exception, tls_reason
from dil.storage.hdfs.kerberos import (
    asks_for_ticket,
    fix_of,
    ticket_headers,
    ticket_refusal,
    uses_kerberos,
)
from dil.storage.hdfs.nameservices import HadoopSetupError
from dil.storage.hdfs.session import new_session, tls_context

_TIMEOUTS_S = (60, 60)  # Seconds to connect, and to wait for the next bytes.
_NS_PER_MS = 1_000_000
_FIX = "Check the host, and the port of the name node's web address (9870 in Hadoop 3)."
_NETWORK_FIX = "Check the name node, the data nodes and the network."
_REFUSED = frozenset({"AccessControlException", "SecurityException", "AuthorizationException"})


class WebHdfsStore(FileStore):
    """The REST interface of a cluster's name nodes, which redirect to data nodes.

    ``servers`` are addresses such as ``http://host:port``; one of the servers is active. Requests
    send ``user`` as ``user.name``, unless the cluster requires a Kerberos ticket: the ticket names
    the user.

    Raises:
        SourceError: the servers use https, and REQUESTS_CA_BUNDLE names no readable file.
    """

    def __init__(self, servers: Sequence[str], user: str, prefix: str) -> None:
        self._bases = [f"{server}/webhdfs/v1" for server in servers]
        self._user = user
        self.prefix = prefix
        self._client = new_session()
        self._is_secured = False
        if self._base.startswith("https:"):
            try:
                tls_context()
            except HadoopSetupError as error:
                raise SourceError(error.message, error.fix) from None

    @property
    def _base(self) -> str:
        """Return the address of the name node that answered last."""
        return self._bases[0]

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def status(self, path: str) -> FileStatus:
        """Return the state of a file or folder."""
        with self._spoken(path):
            return _status(path, self._json(path, "GETFILESTATUS")["FileStatus"])

    def entries(self, path: str) -> list[FileStatus]:
        """Return the files and folders in a folder; raise for a link, whose target is unknown."""
        folder = path.rstrip("/")
        with self._spoken(path):
            found = self._json(path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
            return [_status(f"{folder}/{each['pathSuffix']}", each) for each in found]

    def open(self, path: str, position: int) -> FileStream:
        """Return a stream over a file from a position on, in bytes."""
        return cast(
            "FileStream",
            _WebStream(self._ask_active(path, "OPEN", offset=position), self.shown(path)),
        )

    def _json(self, path: str, operation: str) -> dict[str, Any]:
        with self._ask_active(path, operation) as answer:
            return cast("dict[str, Any]", answer.json())

    @contextmanager
    def _spoken(self, path: str) -> Iterator[None]:
        try:
            yield
        except (requests.RequestException, ValueError, LookupError, TypeError):
            raise SourceError(
                f"{self.shown(path)}: {self._base} does not speak WebHDFS", _FIX
            ) from None

    def _ask_active(self, path: str, operation: str, **more: int) -> requests.Response:
        words = f"{quote(path)}?{urlencode({'op': operation, **more})}"
        for _ in self._bases[1:]:
            try:
                answer = self._ask_one(path, words)
            except TransientSourceError:
                pass
            else:
                if not is_standby(answer):
                    return self._accepted(answer, path)
                answer.close()
            self._bases.append(self._bases.pop(0))
        return self._accepted(self._ask_one(path, words), path)

    def _ask_one(self, path: str, words: str) -> requests.Response:
        """Return the answer of one name node to a request with a user's name or a ticket."""
        try:
            if not self._is_secured and not uses_kerberos():
                named = f"{words}&{urlencode({'user.name': self._user})}" if self._user else words
                answer = self._get(path, named, {})
                if not asks_for_ticket(answer):
                    return answer
                answer.close()
            self._is_secured = True
            headers = ticket_headers(self._base)
        except HadoopSetupError as error:
            what = f"{self.shown(path)}: {error.message}"
            raise AuthenticationError(what, error.fix) from None
        return self._get(path, words, headers)

    def _get(self, path: str, words: str, headers: Mapping[str, str]) -> requests.Response:
        uri = f"{self._base}{words}"
        try:
            return self._client.get(uri, headers=headers, stream=True, timeout=_TIMEOUTS_S)
        except requests.RequestException as error:
            refused = tls_reason(error)
            if refused is not None:
                raise SourceError(
                    f"{self.shown(path)}: TLS to {self._base} failed ({refused})", TLS_FIX
                ) from None
            raise TransientSourceError(
                f"{self.shown(path)}: {self._base} cannot be reached ({type(error).__name__})",
                _FIX,
            ) from None

    def _accepted(self, answer: requests.Response, path: str) -> requests.Response:
        """Return an answer unless it is a refusal; raise the error for a refusal."""
        if answer.status_code != http.HTTPStatus.OK:
            with answer:
                raise _refusal(answer, self.shown(path))
        return answer


class _WebStream:
    """The body of an answer; a broken connection raises a transient error."""

    def __init__(self, answer: requests.Response, shown: str) -> None:
        self._answer = answer
        self._shown = shown

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end."""
        try:
            return cast("bytes", self._answer.raw.read(size, decode_content=False))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise TransientSourceError(
                f"{self._shown}: the data node broke off ({type(error).__name__})", _NETWORK_FIX
            ) from None

    def close(self) -> None:
        """Free the connection."""
        self._answer.close()


def _status(path: str, found: dict[str, Any]) -> FileStatus:
    if found["type"] == "SYMLINK":
        raise SourceError(f"{path}: it is a symbolic link", "Name the target of the link.")
    return FileStatus(
        path,
        found["type"] == "DIRECTORY",
        int(found["length"]),
        int(found["modificationTime"]) * _NS_PER_MS,
        str(found.get("fileId", "")),
    )


def _refusal(answer: requests.Response, shown: str) -> Exception:
    """Return the error for a refusal, with the message in HDFS's JSON object."""
    found = remote_exception(answer)
    kind = found.kind if found else ""
    status = answer.status_code
    what = f"{shown}: HTTP status {status}" + (f", {kind}: {found.words}" if found else "")
    if kind == "FileNotFoundException":
        return FileNotFoundError(shown)
    if kind in _REFUSED:
        return PermissionError(shown)
    # Safe mode ends by itself, too, perhaps only for a later attempt of the task.
    if is_passing(answer) or kind == "SafeModeException":
        return TransientSourceError(what, _NETWORK_FIX)
    if (why := ticket_refusal(answer)) is not None:
        return AuthenticationError(
            f"{shown}: the server does not accept our ticket ({why})", fix_of(why)
        )
    if status in {http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN}:
        return AuthenticationError(
            what, "Set source.conn.username; or, with Kerberos, use a ticket of another user."
        )
    return SourceError(what, _FIX)
