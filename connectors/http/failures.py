"""Explains why a request got no answer, without the library's texts, which may hold secrets."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from typing import NamedTuple

import requests
import urllib3

from connectors.causes import causes_of
from dil.errors import SourceError, TransientSourceError, UnknownOutcomeError
from dil.storage.whole_answers import FramingError, TrickleError

_ADDRESS_FIX = "Check {address}, and whether the source is up."
_NETWORK_FIX = "Check the source, the network and the proxies on the way."
_TIMEOUT_FIX = (
    "Check the source and the network, or set longer times: connectionTimeoutSeconds and"
    " socketTimeoutSeconds of ms.ssl."
)
TRICKLE_FIX = "Check the source and the network; ms.http.response.max.seconds sets a longer time."
_UNKNOWN_FIX = (
    "Check whether the receiver has the row, then run the job again with -D"
    " ms.egress.send.again=true. If the receiver recognises repeated rows, this is safe:"
    " ms.http.idempotency.header names the header that marks a row, ms.http.retry.unsafe=true"
    " declares that repeating does no harm."
)
_PROXY = "source.conn.use.proxy.url"
PROXY_FIX = (
    f"Check {_PROXY}, and whether the proxy allows connections to this host."
    " If it asks for credentials, write user:${env:NAME}@host."
)
PLAIN_REDIRECT_FIX = (
    "DIL does not follow it: anybody on the way could change the rows. Set ms.source.uri to the"
    " https address of the target."
)
_TUNNEL_REFUSED = re.compile(r"Tunnel connection failed: ([0-9]{3})")
_TIMEOUTS = (TimeoutError, urllib3.exceptions.TimeoutError, requests.Timeout)


class _Reason(NamedTuple):
    """Why the connection failed, found by the kind of the error or of one of its causes.

    ``{address}`` in the fix stands for the property that has the request's address.
    """

    kinds: type[BaseException] | tuple[type[BaseException], ...]
    reason: str
    fix: str


# The first match counts. The order matters: a RemoteDisconnected is a ConnectionResetError, and
# urllib3 takes a failed connection for a time-out.
_REASONS = (
    _Reason(TrickleError, "the answer's headers trickle", TRICKLE_FIX),
    _Reason(socket.gaierror, "host name not found", _ADDRESS_FIX),
    _Reason(ConnectionRefusedError, "connection refused", _ADDRESS_FIX),
    _Reason(http.client.RemoteDisconnected, "closed without an answer", _NETWORK_FIX),
    _Reason(ConnectionError, "connection reset", _NETWORK_FIX),
    _Reason(_TIMEOUTS, "timed out", _TIMEOUT_FIX),
    _Reason(FramingError, "the answer does not say clearly where it ends", _NETWORK_FIX),
    _Reason(http.client.HTTPException, "the answer is not HTTP", _ADDRESS_FIX),
)


class _TlsReason(NamedTuple):
    """Why a TLS connection fails each time, found by OpenSSL's words for it.

    ``{peer}`` stands for the server or the proxy, ``{address}`` for the property with its address.
    """

    words: tuple[str, ...]
    reason: str
    fix: str


# The first match counts.
_TLS_REASONS = (
    _TlsReason(
        ("certificate has expired", "certificate is not yet valid"),
        "the {peer}'s certificate is not trusted: it or its authority is not valid at this time",
        "The {peer} needs a new certificate, the trust store of ms.ssl a new authority, or this"
        " machine's clock is wrong.",
    ),
    _TlsReason(
        ("certificate is not valid for",),
        "the {peer}'s certificate is not trusted: it does not contain the host name",
        "Use a host name that the certificate contains in {address}.",
    ),
    _TlsReason(
        ("CERTIFICATE_VERIFY_FAILED",),
        "the {peer}'s certificate is not trusted",
        "Add its authority to the system's authorities, to the file that SSL_CERT_FILE names, or"
        " to the trust store of ms.ssl. The certificate must contain the host name.",
    ),
    _TlsReason(
        ("ALERT_CERTIFICATE_EXPIRED",),
        "the {peer} refuses the client certificate, which has expired",
        "Put a new certificate with its key into the file of keyStorePath of ms.ssl.",
    ),
    _TlsReason(
        ("ALERT_CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA",
         "ALERT_CERTIFICATE_REVOKED", "ALERT_CERTIFICATE_UNKNOWN", "ALERT_UNSUPPORTED_CERTIFICATE",
         "ALERT_ACCESS_DENIED"),
        "the {peer} asks for a client certificate that it knows",
        "Name the certificate in keyStorePath of ms.ssl.",
    ),
    _TlsReason(
        ("ALERT_HANDSHAKE_FAILURE",),
        "the {peer} breaks the TLS handshake off",
        "It may require a client certificate: set keyStorePath of ms.ssl.",
    ),
    _TlsReason(
        ("UNRECOGNIZED_NAME",),
        "the {peer} does not know the host name",
        "Check the host of {address}.",
    ),
    _TlsReason(
        ("UNSUPPORTED_PROTOCOL", "ALERT_PROTOCOL_VERSION", "WRONG_VERSION_NUMBER"),
        "the {peer} speaks no TLS of the version asked for",
        "Check the scheme and port of {address}, and version of ms.ssl.",
    ),
)  # fmt: skip
# Errors that occur before a byte of the request is sent.
_CONNECTING = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    requests.exceptions.ProxyError,
)


def connection_failure(error: Exception, shown: str, address: str = "ms.source.uri") -> SourceError:
    """Return our error for an error of ``requests``.

    Args:
        error: The error of ``requests``.
        shown: The name of the request.
        address: The property that has the request's address.
    """
    text = str(error)
    is_of_proxy = isinstance(error, requests.exceptions.ProxyError)
    for lasting in _TLS_REASONS:
        if any(word in text for word in lasting.words):
            peer, where = ("proxy", _PROXY) if is_of_proxy else ("server", address)
            reason = lasting.reason.format(peer=peer)
            return SourceError(f"{shown}: {reason}", lasting.fix.format(peer=peer, address=where))
    refused = _TUNNEL_REFUSED.search(text)
    if refused:
        what = f"{shown}: the proxy answers with HTTP status {refused[1]}"
        passes = refused[1].startswith("5")
        return (TransientSourceError if passes else SourceError)(what, PROXY_FIX)
    place = "the proxy: " if is_of_proxy else ""
    causes = list(causes_of(error))
    for known in _REASONS:
        if any(isinstance(cause, known.kinds) for cause in causes):
            fix = PROXY_FIX if is_of_proxy else known.fix.format(address=address)
            return TransientSourceError(f"{shown}: {place}{known.reason}", fix)
    kind = next((each.reason for each in causes if isinstance(each, ssl.SSLError)), "")
    kind = kind or type(error).__name__
    return TransientSourceError(f"{shown}: {place}the connection failed ({kind})", _NETWORK_FIX)


def may_have_been_done(error: Exception) -> bool:
    """Return whether the source may have done a request that got no answer."""
    return not any(isinstance(cause, _CONNECTING) for cause in causes_of(error))


def unknown_outcome(what: str) -> UnknownOutcomeError:
    """Return the error for a request that the source may have done; ``what`` says how it failed."""
    return UnknownOutcomeError(
        f"{what}; the request may have been done, so it is not sent again", _UNKNOWN_FIX
    )
