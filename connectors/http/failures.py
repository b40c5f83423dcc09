"""Why a request got no answer, in words; the client library's own may hold the whole address."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import requests
import urllib3

from dil.errors import SourceError, TransientSourceError

_ADDRESS_FIX = "Check ms.source.uri, and whether the source is up."
_NETWORK_FIX = "Check the source, the network and the proxies in between."
_TIMEOUT_FIX = (
    "Check the source and the network, or give it longer: connectionTimeoutSeconds and"
    " socketTimeoutSeconds of ms.ssl."
)
# What is found in an error or behind it; the first that applies. RemoteDisconnected is a
# ConnectionResetError, a failed connection is a time-out to urllib3: order matters.
_REASONS: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    ((socket.gaierror,), "host name not found", _ADDRESS_FIX),
    ((ConnectionRefusedError,), "connection refused", _ADDRESS_FIX),
    ((http.client.RemoteDisconnected,), "closed without an answer", _NETWORK_FIX),
    ((ConnectionError,), "connection reset", _NETWORK_FIX),
    ((TimeoutError, urllib3.exceptions.TimeoutError, requests.Timeout), "timed out", _TIMEOUT_FIX),
    ((http.client.HTTPException,), "the answer is not HTTP", _ADDRESS_FIX),
)
_DEPTH = 20  # causes may form a ring


def connection_failure(error: Exception, shown: str) -> SourceError:
    """Return our error for one of ``requests``; ``shown`` names the request without secrets."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return SourceError(
            f"{shown}: the server's certificate is not trusted",
            "Add its authority to the system's trust, or to the file that SSL_CERT_FILE names.",
        )
    place = "the proxy: " if isinstance(error, requests.exceptions.ProxyError) else ""
    causes = list(_causes(error))
    for kinds, reason, fix in _REASONS:
        if any(isinstance(cause, kinds) for cause in causes):
            return TransientSourceError(f"{shown}: {place}{reason}", fix)
    kind = type(error).__name__
    return TransientSourceError(f"{shown}: {place}the connection failed ({kind})", _NETWORK_FIX)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from; urllib3 keeps that in ``reason`` or in arguments."""
    waiting = [error]
    for _ in range(_DEPTH):
        if not waiting:
            return
        found = waiting.pop(0)
        yield found
        inner = (*found.args, getattr(found, "reason", None), found.__cause__, found.__context__)
        waiting += [each for each in inner if isinstance(each, BaseException)]
