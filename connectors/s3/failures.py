"""Translates errors of S3 and its client library into our errors; only this module does so."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import botocore.exceptions as aws
import urllib3

from connectors.causes import causes_of
from dil.errors import AuthenticationError, SourceError, TransientSourceError
from dil.model.messages import shortened

_NETWORK_FIX = "Check the source, the network and the proxies on the way."
_ADDRESS_FIX = "Check ms.source.uri, and the region and endpoint in ms.source.s3.parameters."
_KEYS_FIX = (
    "Check source.conn.username (the access key) and source.conn.password (its secret), or write"
    ' ms.source.s3.parameters={"credentials":"default"} to use those of the machine.'
)
_CLOCK_FIX = "Set the clock of this machine: S3 checks the time of signed requests."
_RIGHTS_FIX = (
    "Grant the access key s3:ListBucket on the bucket, and s3:GetObject (or s3:PutObject) on its"
    " objects."
)
_CREDENTIALS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
     "TokenRefreshRequired", "InvalidSecurity", "RequestTimeTooSkewed", "NotSignedUp", "401"}
)  # fmt: skip
_RIGHTS = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden", "403"})
_GONE = frozenset({"NoSuchKey", "NoSuchVersion", "NotFound", "404"})
# The last two codes mean: the object became shorter, and the service does not obey If-Match.
_CHANGED = frozenset({"PreconditionFailed", "412", "InvalidRange", "416"})
_PASSING = frozenset(
    {"SlowDown", "RequestTimeout", "RequestTimeoutException", "Throttling", "ThrottlingException",
     "TooManyRequests", "InternalError", "ServiceUnavailable", "OperationAborted", "BadDigest",
     "RequestLimitExceeded", "BandwidthLimitExceeded", "IncompleteBody"}
)  # fmt: skip
_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "301", "307", "308",
                     "TemporaryRedirect", "IllegalLocationConstraintException"})  # fmt: skip
_FIXES = {
    "NoSuchBucket": "Check the bucket: the first label of the host, or bucket_name.",
    "InvalidObjectState": "The object is archived: restore it first.",
    "RequestTimeTooSkewed": _CLOCK_FIX,
}
_SERVER_ERRORS = range(500, 600)
_TOO_MANY = 429


class ObjectGoneError(SourceError):
    """The object does not exist, or exists no longer."""


class ObjectChangedError(SourceError):
    """The object is not the requested version, or no longer is."""


@contextmanager
def translated_errors(shown: str, client: Any = None) -> Iterator[None]:  # no types
    """Translate errors of the client library; ``shown`` begins the messages.

    Args:
        shown: Names the place, without secrets.
        client: The client that sends the requests, None if it does not exist yet.
    """
    at = f" at {client.meta.endpoint_url}" if client is not None else ""
    try:
        yield
    except aws.ClientError as error:
        raise _refusal(error, shown, at) from None
    except (aws.BotoCoreError, urllib3.exceptions.HTTPError, http.client.HTTPException,
            OSError) as error:  # fmt: skip
        raise _failure(error, shown, at) from None


def _refusal(error: aws.ClientError, shown: str, at: str) -> SourceError:
    """Return our error for an answer by which the service refuses a request."""
    about = error.response.get("Error", {})
    code = str(about.get("Code", "")) or "an unknown error"
    if code in _GONE:
        return ObjectGoneError(f"{shown}: the object does not exist ({code})")
    if code in _CHANGED:
        return ObjectChangedError(f"{shown}: the object is another one now ({code})")
    words = shortened(str(about.get("Message", "")))
    what = f"{shown}: the service answers {code}" + (f" ({words})" if words else "") + at
    if code in _CREDENTIALS:
        return AuthenticationError(what, _FIXES.get(code, _KEYS_FIX))
    if code in _RIGHTS:
        return AuthenticationError(what, _RIGHTS_FIX)
    facts = error.response.get("ResponseMetadata", {})
    status = int(facts.get("HTTPStatusCode", 0) or 0)
    if code in _PASSING or status in _SERVER_ERRORS or status == _TOO_MANY:
        return TransientSourceError(what, _NETWORK_FIX)
    fix = _FIXES.get(code, _ADDRESS_FIX)
    if code in _REGION:
        region = facts.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
        named = f'The bucket is in {region}: write "region":"{region}"' if region else "Set region"
        fix = f"{named} in ms.source.s3.parameters."
    return SourceError(what, fix)


def _failure(error: Exception, shown: str, at: str) -> SourceError:
    """Return our error for a request without an answer, or for an answer that broke off."""
    if isinstance(error, aws.NoCredentialsError | aws.PartialCredentialsError):
        return AuthenticationError(f"{shown}: no credentials were found", _KEYS_FIX)
    if isinstance(error, aws.CredentialRetrievalError | aws.TokenRetrievalError):
        return AuthenticationError(f"{shown}: the credentials cannot be read", _KEYS_FIX)
    if isinstance(error, aws.ParamValidationError):
        return SourceError(f"{shown}: {shortened(str(error))}", _ADDRESS_FIX)
    causes = list(causes_of(error))
    if isinstance(error, aws.SSLError) or any(isinstance(c, ssl.SSLError) for c in causes):
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return SourceError(
                f"{shown}: the server's certificate is not trusted{at}",
                "Name the PEM file of the certificate's authority in trustStorePath of ms.ssl.",
            )
        return TransientSourceError(f"{shown}: TLS failed{at}", _ADDRESS_FIX)
    reason, fix = _reason(error, causes)
    return TransientSourceError(f"{shown}: {reason}{at}", fix)


def _reason(error: Exception, causes: list[BaseException]) -> tuple[str, str]:
    place = "the proxy: " if isinstance(error, aws.ProxyConnectionError) else ""
    timeouts = (TimeoutError, urllib3.exceptions.TimeoutError, aws.ConnectTimeoutError,
                aws.ReadTimeoutError)  # fmt: skip
    for kinds, words, fix in (
        ((socket.gaierror,), "host name not found", _ADDRESS_FIX),
        ((ConnectionRefusedError,), "connection refused", _ADDRESS_FIX),
        ((aws.FlexibleChecksumError,), "the bytes do not fit their checksum", _NETWORK_FIX),
        ((aws.IncompleteReadError, http.client.IncompleteRead), "the body broke off", _NETWORK_FIX),
        ((ConnectionError, http.client.RemoteDisconnected), "connection reset", _NETWORK_FIX),
        (timeouts, "timed out", f"{_NETWORK_FIX} read_timeout_seconds sets a longer time."),
    ):
        if any(isinstance(each, kinds) for each in causes):
            return f"{place}{words}", fix
    return f"{place}the connection failed ({type(error).__name__})", _NETWORK_FIX
