"""Translates errors of S3's client library into DIL's errors; no other module does."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import botocore.exceptions as aws
import urllib3

from dil.errors import WriteError
from dil.storage.objects.bucket import ObjectExistsError

# These errors also occur while the body of an answer is read.
BROKEN = (aws.BotoCoreError, urllib3.exceptions.HTTPError, http.client.HTTPException, OSError)

_GONE = frozenset({"NoSuchKey", "NoSuchVersion", "NotFound", "404"})
# Requests in which "not found" (404) means the object. In other requests it means the bucket.
_OF_OBJECTS = frozenset({"GetObject", "HeadObject", "CopyObject", "UploadPartCopy"})
_TAKEN = frozenset({"PreconditionFailed", "412"})
_RACING = frozenset({"ConditionalRequestConflict", "OperationAborted", "409"})
_UNKNOWN = frozenset({"NotImplemented", "501"})
_RIGHTS = frozenset({"AccessDenied", "AllAccessDisabled", "Forbidden", "403"})
_KEYS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
     "TokenRefreshRequired", "RequestTimeTooSkewed"}
)  # fmt: skip
_BUCKET_FIX = "Create the bucket, or correct the property that names it."
_RIGHTS_FIX = (
    "Grant the credentials s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject,"
    " s3:DeleteObject and s3:AbortMultipartUpload below the folder."
)
_KEYS_FIX = (
    "Put credentials where the AWS tools look for them: AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of the machine; executors need them as well."
)
_SERVICE_FIX = (
    "Check the network, and AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL if the service is not AWS."
    " Nothing was lost: run again."
)
_TLS_FIX = "If the authority is your own, set AWS_CA_BUNDLE to its file (PEM)."


class RacingError(Exception):
    """Another writer is changing the same key at this moment; repeat the request."""


class UnknownConditionError(Exception):
    """The service says that it does not support conditions."""


@contextmanager
def translated_errors(path: str, client: Any) -> Iterator[None]:  # botocore has no types
    """Translate the client library's errors.

    Raises:
        FileNotFoundError: the object to be read or copied does not exist.
        ObjectExistsError, RacingError, UnknownConditionError: a condition failed or is unknown.
        WriteError: any other failure.
    """
    try:
        yield
    except aws.ClientError as error:
        raise _refusal(error, path, client) from None
    except BROKEN as error:
        raise _failure(error, path, client) from error


def _refusal(error: aws.ClientError, path: str, client: Any) -> Exception:
    """Return DIL's error for a refusal; an answer to HEAD has only a status."""
    about = error.response.get("Error", {})
    code = str(about.get("Code", "")) or "an unknown error"
    at = client.meta.endpoint_url
    if code == "NoSuchBucket" or (code in _GONE and error.operation_name not in _OF_OBJECTS):
        return WriteError(f"{path}: there is no such bucket at {at}", _BUCKET_FIX)
    for kind, codes in (
        (FileNotFoundError, _GONE),
        (ObjectExistsError, _TAKEN),
        (RacingError, _RACING),
        (UnknownConditionError, _UNKNOWN),
    ):
        if code in codes:
            return kind(path)
    words = str(about.get("Message", ""))[:200]
    what = f"{path}: {at} answers {code}" + (f" ({words})" if words else "")
    if code in _RIGHTS:
        return WriteError(what, _RIGHTS_FIX)
    return WriteError(what, _KEYS_FIX if code in _KEYS else _SERVICE_FIX)


def _failure(error: Exception, path: str, client: Any) -> WriteError:
    """Return DIL's error for a request that got no answer."""
    if isinstance(
        error, aws.NoCredentialsError | aws.PartialCredentialsError | aws.CredentialRetrievalError
    ):
        return WriteError(f"{path}: there are no credentials for S3", _KEYS_FIX)
    if isinstance(error, aws.ParamValidationError):
        return WriteError(f"{path}: {error}", _BUCKET_FIX)
    at = client.meta.endpoint_url
    if isinstance(error, aws.SSLError):
        return WriteError(f"{path}: TLS to {at} failed: {error}", _TLS_FIX)
    reason = type(error).__name__.removesuffix("Error")
    return WriteError(f"{path}: {at} cannot be reached ({reason})", _SERVICE_FIX)
