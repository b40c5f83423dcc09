"""Requests to name nodes, and to the data nodes to which they redirect.

Source: Apache Hadoop 3, "WebHDFS REST API". If an answer was lost, the operation may be sent again:
the callers find out whether the first request was done.
"""

from __future__ import annotations

import http
import random
import ssl
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import requests

from dil.errors import WriteError
from dil.model.job import Blocks
from dil.storage.hdfs.failures import (
    LOG_FIX,
    disobedience,
    is_passing,
    is_standby,
    no_webhdfs,
    refusal,
    tls_reason,
    unreachable,
)
from dil.storage.hdfs.kerberos import asks_for_ticket, ticket_headers, uses_kerberos
from dil.storage.hdfs.nameservices import HadoopSetupError
from dil.storage.hdfs.place import HdfsPath, place_of
from dil.storage.hdfs.session import new_session, tls_context, user_here

T = TypeVar("T")
TIMEOUTS_S = (20, 120)  # The seconds to connect, and to wait for the next bytes.
_PAUSES_S = (0.1, 0.4, 1.6)
# A cluster with several name nodes needs about ten seconds until another name node takes over.
_FAILOVER_PAUSES_S = (*_PAUSES_S, 5.0, 10.0, 15.0)
_ROOT = "/webhdfs/v1"
# With this flag data nodes write data to disk, not only to memory, when the file is closed.
_DURABLE = "create,sync_block"
_CONTENT = (http.HTTPStatus.OK,)
_CREATED = (http.HTTPStatus.CREATED,)
_ACCEPTED = range(http.HTTPStatus.OK, http.HTTPStatus.BAD_REQUEST)


@dataclass(frozen=True, slots=True)
class FileState:
    """A name node's record of a file or folder; ``modified`` is epoch milliseconds UTC.

    ``identity`` is the inode's number, which a renamed file keeps.
    """

    name: str
    is_folder: bool
    size: int
    modified: int
    identity: int


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed request; if the failure is temporary, the request may succeed a moment later.

    If ``is_here_only`` is true, another name node may answer the same request. If
    ``asks_for_ticket`` is true, this name node may answer if the request has a ticket.
    """

    error: Exception
    passes: bool
    is_here_only: bool = False
    asks_for_ticket: bool = False


class WebHdfs:
    """A client for all name nodes, as one user; several threads may use it.

    Raises:
        FileNotFoundError: an operation needs a file that does not exist.
        NameTakenError, NotEmptyError: a rename, or a deletion, was refused for this reason.
        WriteError: any other failure.
    """

    def __init__(self, blocks: Blocks | None = None) -> None:
        # The name node refuses numbers that are not above 0, so unset values are left out.
        kept = blocks or Blocks()
        asked = {"replication": kept.copies, "blocksize": kept.bytes}
        self._kept = {name: str(number) for name, number in asked.items() if number}
        with _as_write_errors():
            self.user = user_here()
        self._session = new_session()
        # The name node that answered last, by the prefix of its cluster's paths.
        self._active: dict[str, str] = {}
        # The clusters that asked for tickets, by the same prefix.
        self._secured: set[str] = set()

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Return the TLS context; if it cannot be made, no request is sent over TLS."""
        with _as_write_errors():
            return tls_context()

    def state(self, path: str) -> FileState | None:
        """Return the state of a file or folder, None if it does not exist."""
        try:
            found = self._json("GET", path, "GETFILESTATUS")
        except FileNotFoundError:
            return None
        return _state(path, found, "FileStatus")

    def listed(self, path: str) -> Iterator[FileState]:
        """Yield the entries directly in a folder, unordered; none if the folder is missing.

        The name node sends some thousand entries at a time, in order of signed bytes.
        """
        last = ""
        while True:
            try:
                page = self._json("GET", path, "LISTSTATUS_BATCH", startAfter=last)
            except FileNotFoundError:
                return
            found = _member(path, page, "DirectoryListing", dict)
            partial = _member(path, found, "partialListing", dict)
            entries = _member(
                path, _member(path, partial, "FileStatuses", dict), "FileStatus", list
            )
            states = [_state(path, {"entry": each}, "entry") for each in entries]
            yield from (each for each in states if each.name)  # a file lists itself, without a name
            if not _member(path, found, "remainingEntries", int):
                return
            if not states or states[-1].name == last:
                raise WriteError(
                    f"{path}: the list continues, but the name node does not say where", LOG_FIX
                )
            last = states[-1].name

    def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents."""
        if not _member(path, self._json("PUT", path, "MKDIRS"), "boolean", bool):
            raise WriteError(f"{path}: the folder cannot be created", LOG_FIX)

    def set_mode(self, path: str, mode: int) -> None:
        """Set permission bits."""
        self._ask_active("PUT", path, "SETPERMISSION", permission=f"{mode:o}").close()

    def set_group(self, path: str, group: str) -> None:
        """Give a file or folder to a group."""
        self._ask_active("PUT", path, "SETOWNER", group=group).close()

    def rename(self, source: str, target: str, *, over: bool) -> None:
        """Rename a file; an existing file is replaced only if ``over`` is true.

        The request has ``renameoptions``, because otherwise a name node moves the file into
        ``target`` if ``target`` is a folder, and gives no reason if it refuses.
        """
        place, there = place_of(source), place_of(target)
        if there.prefix != place.prefix:
            raise WriteError(
                f"{source} cannot be moved to {target}, on another cluster",
                "Set data.publisher.final.dir back for one run, which finishes the publish that"
                " has begun.",
            )
        options = "OVERWRITE" if over else "NONE"
        answer = self._ask_active(
            "PUT", source, "RENAME", destination=there.path, renameoptions=options
        )
        if answer.content.strip():
            raise disobedience(target, self._server(source))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder, if it exists."""
        self._json("DELETE", path, "DELETE", recursive=str(recursive).lower())

    def create(self, path: str, data: bytes) -> None:
        """Write a new file. After an error a part may remain, so use a name that no other file has.

        No request is repeated: after a lost answer the caller uses another name.

        Raises:
            FileNotFoundError: the folder is missing.
        """
        found = self._attempt(
            "PUT", self.data_address(path), path, wanted=_CREATED, data=data, headers=DATA_HEADERS
        )
        if isinstance(found, _Failure):
            raise found.error

    def data_address(self, path: str) -> str:
        """Return the data node's address to which the data of a new file is sent.

        This raises if the file's folder is missing. Otherwise the data node would create the folder
        again, perhaps after a cleanup deleted it.
        """
        return self._find_data_node(
            "PUT", path, "CREATE", overwrite="false", createparent="false", createflag=_DURABLE,
            **self._kept,
        )  # fmt: skip

    def opened(self, path: str, offset: int) -> requests.Response:
        """Return the answer with a file's content from a byte offset on; the caller closes it.

        If a data node fails, the name node is asked again, and may name another data node.
        """

        def attempt() -> requests.Response | _Failure:
            address = self._find_data_node("GET", path, "OPEN", offset=str(offset))
            return self._attempt("GET", address, path, wanted=_CONTENT, stream=True)

        return _repeated(attempt)

    def _find_data_node(self, method: str, path: str, operation: str, **query: str) -> str:
        answer = self._ask_active(method, path, operation, **query)
        location = answer.headers.get("Location", "")
        parts = urlsplit(location)
        if not answer.is_redirect or parts.scheme not in {"http", "https"} or not parts.netloc:
            raise no_webhdfs(path, self._server(path), "it does not name the data node")
        # Some name nodes leave characters in the path unquoted; data nodes misread these.
        return parts._replace(path=_quoted(place_of(path))).geturl()

    def _json(self, method: str, path: str, operation: str, **query: str) -> dict[str, Any]:
        answer = self._ask_active(method, path, operation, **query)
        with suppress(requests.RequestException, ValueError):
            found = answer.json()
            if isinstance(found, dict):
                return found
        raise no_webhdfs(path, self._server(path), "its answer is no JSON object")

    def _ask_active(
        self, method: str, path: str, operation: str, **query: str
    ) -> requests.Response:
        """Return the active name node's answer; raise the error of a request that fails."""
        place = place_of(path)

        def attempt() -> requests.Response | _Failure:
            first = self._server(path)
            servers = (first, *(each for each in place.servers if each != first))
            failures = []
            for server in servers:
                found = self._ask_one(method, server, path, {"op": operation, **query})
                if not isinstance(found, _Failure) or not found.is_here_only:
                    self._active[place.prefix] = server
                    return found
                failures.append(found)
            return _of_all(failures)

        pauses = _PAUSES_S if len(place.servers) == 1 else _FAILOVER_PAUSES_S
        return _repeated(attempt, pauses)

    def _ask_one(
        self, method: str, server: str, path: str, query: Mapping[str, str]
    ) -> requests.Response | _Failure:
        """Return one name node's answer to a request with the user's name or a Kerberos ticket.

        A name node that requires a ticket accepts no user's name beside the ticket. Data nodes use
        the credentials in the name node's redirects.
        """
        place = place_of(path)
        address = f"{server}{_quoted(place)}?"
        with _as_write_errors():
            is_secured = place.prefix in self._secured or uses_kerberos()
        if not is_secured:
            words = urlencode({**query, "user.name": self.user}, quote_via=quote)
            found = self._attempt(method, f"{address}{words}", path)
            if not isinstance(found, _Failure) or not found.asks_for_ticket:
                return found
        self._secured.add(place.prefix)
        try:
            headers = ticket_headers(server)
        except HadoopSetupError as error:
            return _Failure(
                WriteError(f"{path}: {error.message}", error.fix), passes=False, is_here_only=True
            )
        words = urlencode(query, quote_via=quote)
        return self._attempt(method, f"{address}{words}", path, headers=headers)

    def _attempt(
        self,
        method: str,
        address: str,
        path: str,
        *,
        wanted: Container[int] = _ACCEPTED,
        **more: Any,  # arguments of requests
    ) -> requests.Response | _Failure:
        """Return the answer to one request if its status is wanted, else the failure."""
        parts = urlsplit(address)
        server = f"{parts.scheme}://{parts.netloc}"
        if server.startswith("https:"):
            _ = self.tls  # raises DIL's own error if the certificates cannot be read
        try:
            answer = self._session.request(
                method, address, timeout=TIMEOUTS_S, allow_redirects=False, **more
            )
        except requests.RequestException as error:
            return _Failure(
                unreachable(path, server, error), tls_reason(error) is None, is_here_only=True
            )
        if answer.status_code in wanted:
            return answer
        with answer:
            return _Failure(
                refusal(answer, path, server),
                is_passing(answer),
                is_here_only=is_standby(answer),
                asks_for_ticket=asks_for_ticket(answer),
            )

    def _server(self, path: str) -> str:
        """Return the name node to query first: the name node that answered last."""
        place = place_of(path)
        return self._active.get(place.prefix, place.servers[0])


@contextmanager
def _as_write_errors() -> Iterator[None]:
    try:
        yield
    except HadoopSetupError as error:
        raise WriteError(error.message, error.fix) from error


def _of_all(failures: Sequence[_Failure]) -> _Failure:
    """Return one failure that represents the failures of all name nodes of a cluster."""
    if len(failures) == 1:
        return failures[0]
    errors = [each.error for each in failures]
    words = "; ".join(each.message for each in errors if isinstance(each, WriteError))
    fix = next((each.fix for each in errors if isinstance(each, WriteError)), LOG_FIX)
    return _Failure(WriteError(words, fix), any(each.passes for each in failures))


def _repeated(
    attempt: Callable[[], requests.Response | _Failure], waits: Sequence[float] = _PAUSES_S
) -> requests.Response:
    """Return the answer of the first successful attempt, with pauses between the attempts."""
    pauses = iter(waits)
    while isinstance(found := attempt(), _Failure):
        pause = next(pauses, None)
        if pause is None or not found.passes:
            raise found.error
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - not a secret
    return found


# HttpFS, which may stand in front of a name node, requires this header.
DATA_HEADERS = {"Content-Type": "application/octet-stream"}


def _quoted(place: HdfsPath) -> str:
    return f"{_ROOT}{quote(place.path)}"


def _member(path: str, found: dict[str, Any], name: str, kind: type[T]) -> T:
    member = found.get(name)
    if not isinstance(member, kind):
        raise no_webhdfs(path, place_of(path).servers[0], f"its answer has no {name}")
    return member


def _state(path: str, found: dict[str, Any], name: str) -> FileState:
    entry = _member(path, found, name, dict)
    return FileState(
        _member(path, entry, "pathSuffix", str),
        _member(path, entry, "type", str) == "DIRECTORY",
        _member(path, entry, "length", int),
        _member(path, entry, "modificationTime", int),
        _member(path, entry, "fileId", int),
    )
