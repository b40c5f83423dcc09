"""Translates refusals of HDFS. Source: Apache Hadoop 3, "WebHDFS REST API", error responses."""

from __future__ import annotations

import http
import ssl
from dataclasses import dataclass

import requests

from dil.errors import WriteError
from dil.model.messages import shortened
from dil.storage.hdfs.kerberos import fix_of, ticket_refusal
from dil.storage.hdfs.place import NameTakenError, NotEmptyError

SERVER_FIX = (
    "Name the name node's web address (dfs.namenode.http-address, port 9870 in Hadoop 3):"
    " webhdfs://host:port/path. Nothing was lost: run again."
)
NETWORK_FIX = (
    "Check the network. A nameservice is known only if HADOOP_CONF_DIR names the folder of its"
    " hdfs-site.xml. This machine, and every machine that runs tasks, must reach the web"
    " addresses of the data nodes. Nothing was lost: run again."
)
_RIGHTS_FIX = (
    "Set HADOOP_USER_NAME (for executors too) to a user who may write there, or grant rights by"
    " hdfs dfs -chown or -chmod."
)
LOG_FIX = "Look for the cause in the name node's log, then run again: nothing was lost."
TLS_FIX = "If the authority is your own, set REQUESTS_CA_BUNDLE to its file (PEM)."
_SECURE_FIX = (
    "Get a ticket of a principal that the cluster accepts (klist shows yours), and set"
    " hadoop.security.authentication to kerberos in core-site.xml under HADOOP_CONF_DIR."
)
_FIXES = {
    "AccessControlException": _RIGHTS_FIX,
    "SafeModeException": (
        "The name node accepts no writes while it starts, or while its own disk is full. Wait, or"
        " let an operator check hdfs dfsadmin -safemode get, then run again: nothing was lost."
    ),
    "StandbyException": (
        "Name the nameservice, which hdfs-site.xml in HADOOP_CONF_DIR lists: hdfs://lake/folder. Or"
        " name the active name node (hdfs haadmin -getAllServiceState), then run again: nothing"
        " was lost."
    ),
    "NSQuotaExceededException": (
        "The quota counts files and folders. Delete some, or let an operator raise the quota"
        " (hdfs dfsadmin -setQuota)."
    ),
    "DSQuotaExceededException": (
        "While a file is written, it needs room for a whole block of each copy. Delete some"
        " files, or let an operator raise the quota (hdfs dfsadmin -setSpaceQuota)."
    ),
    "ParentNotDirectoryException": "Move that file away, or correct the property that names it.",
    "FileNotFoundException": "Find out which program deletes it, then run again.",
}
_NO_ROOM = ("could only be written to", "could only be replicated to", "Failed to find datanode")
_NO_ROOM_FIX = (
    "Check hdfs dfsadmin -report for data nodes that are full or dead, then run again: nothing"
    " was lost."
)
_PASSING = frozenset({"RetriableException", "StandbyException"})
_GONE = frozenset({"FileNotFoundException"})
_TAKEN = frozenset({"FileAlreadyExistsException"})
_FULL = frozenset({"PathIsNotEmptyDirectoryException"})


@dataclass(frozen=True, slots=True)
class RemoteException:
    """The content of an HDFS refusal: the exception's class, and the first line of its message."""

    kind: str
    words: str


def remote_exception(answer: requests.Response) -> RemoteException | None:
    """Return the exception in an answer, None if it has none."""
    try:
        found = answer.json()["RemoteException"]
        kind, words = str(found["exception"]), str(found.get("message") or "")
    except (requests.RequestException, ValueError, LookupError, TypeError):
        return None
    # A stack trace may follow the first line.
    return RemoteException(kind, shortened(words.partition("\n")[0]))


def is_passing(answer: requests.Response) -> bool:
    """Return whether the same request may succeed a moment later."""
    if answer.status_code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return True
    if answer.status_code < http.HTTPStatus.BAD_REQUEST:
        return False
    found = remote_exception(answer)
    return found is not None and found.kind in _PASSING


def is_standby(answer: requests.Response) -> bool:
    """Return whether another name node of the cluster is the active one."""
    if answer.status_code < http.HTTPStatus.BAD_REQUEST:
        return False  # The body is a file's content, which can be read only once.
    found = remote_exception(answer)
    return found is not None and found.kind == "StandbyException"


def refusal(answer: requests.Response, path: str, server: str) -> Exception:
    """Return DIL's error for an answer that refuses a request.

    It is a FileNotFoundError, NameTakenError, NotEmptyError or WriteError.
    """
    found = remote_exception(answer)
    if found is None:
        return _wordless(answer, path, server)
    for kind, names in (
        (FileNotFoundError, _GONE),
        (NameTakenError, _TAKEN),
        (NotEmptyError, _FULL),
    ):
        if found.kind in names:
            return kind(path)
    what = f"{path}: {server} answers {found.kind}" + (f" ({found.words})" if found.words else "")
    if found.words.find("SIMPLE authentication is not enabled") >= 0:
        return WriteError(what, _SECURE_FIX)
    if any(words in found.words for words in _NO_ROOM):
        return WriteError(what, _NO_ROOM_FIX)
    return WriteError(what, _FIXES.get(found.kind, LOG_FIX))


def _wordless(answer: requests.Response, path: str, server: str) -> WriteError:
    """Return DIL's error for an answer without HDFS's form, for example from a proxy."""
    if (why := ticket_refusal(answer)) is not None:
        return WriteError(f"{path}: {server} refused the Kerberos ticket ({why})", fix_of(why))
    if answer.status_code == http.HTTPStatus.UNAUTHORIZED:
        return WriteError(
            f"{path}: {server} requires authentication (HTTP status 401)", _SECURE_FIX
        )
    return no_webhdfs(path, server, f"HTTP status {answer.status_code}")


def no_webhdfs(path: str, server: str, why: str) -> WriteError:
    """Return DIL's error for a server that does not answer like a name node or data node."""
    return WriteError(f"{path}: {server} does not speak WebHDFS ({why})", SERVER_FIX)


def tls_reason(error: BaseException) -> str | None:
    """Return why TLS failed, None if the error has another cause.

    Only the innermost error is used: the outer errors contain the whole address, and a name node
    may have put tokens into the address.
    """
    inner: object = error
    while isinstance(inner, BaseException):
        if isinstance(inner, ssl.SSLEOFError | ssl.SSLZeroReturnError):  # A connection was closed.
            return None
        if isinstance(inner, ssl.SSLError):
            words = (inner.reason, getattr(inner, "verify_message", None))
            return shortened(": ".join(filter(None, words)) or type(inner).__name__)
        inner = getattr(inner, "reason", None) or next(iter(inner.args), None)
    return "SSLError" if isinstance(error, requests.exceptions.SSLError) else None


def unreachable(path: str, server: str, error: Exception) -> WriteError:
    """Return DIL's error for a request that got no answer."""
    refused = tls_reason(error)
    if refused is not None:
        return WriteError(f"{path}: TLS to {server} failed ({refused})", TLS_FIX)
    reason = type(error).__name__.removesuffix("Error")
    return WriteError(f"{path}: {server} cannot be reached ({reason})", NETWORK_FIX)


def disobedience(path: str, server: str) -> WriteError:
    """Return DIL's error for a server that ignores ``renameoptions``: its renames are unsafe."""
    return WriteError(
        f"{path}: {server} does not obey renameoptions, so that two writers cannot be kept apart;"
        " HttpFS ignores them, for example",
        SERVER_FIX,
    )
