"""Opens containers of Azure, and translates Azure's refusals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from dil import __version__
from dil.errors import WriteError
from dil.storage.objects.bucket import ObjectExistsError, reason
from dil.storage.whole_answers import refuse_torn_answers

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

    from dil.storage.objects.place import ObjectPath

# Seconds. A request without a time-out could block a task for ever.
_CONNECT, _READ = 20, 120
_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
_GONE = frozenset({"BlobNotFound", "ResourceNotFound", "PathNotFound"})
_NO_CONTAINER = frozenset({"ContainerNotFound", "FilesystemNotFound"})
_TAKEN = frozenset(
    {"BlobAlreadyExists", "PathAlreadyExists", "ConditionNotMet", "SourceConditionNotMet",
     "TargetConditionNotMet"}
)  # fmt: skip
_KEYS = frozenset(
    {"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"}
)
_CONTAINER_FIX = "Create the container, or correct the property that names it."
_RIGHTS_FIX = (
    "The identity needs the role Storage Blob Data Contributor on the container; a SAS needs the"
    " rights to read, add, create, write, delete and list (racwdl). An account's firewall causes"
    " the same answer."
)
_KEYS_FIX = (
    "Set credentials of this account: AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY,"
    " AZURE_STORAGE_SAS_TOKEN, or an identity that azure-identity finds: AZURE_CLIENT_ID and"
    " related variables, a workload or managed identity, az login. Executors need them as well."
)
_COPY_FIX = (
    "The service must read the source of a copy. A SAS (AZURE_STORAGE_SAS_TOKEN, or in the"
    " connection string) needs the right to read, r, on the whole container, and must not have"
    " expired."
)
_SERVICE_FIX = "Check the network and the account's name in the path. Nothing was lost: run again."


def container_client(place: ObjectPath) -> ContainerClient:
    """Return a client of a container; no request is sent yet.

    Raises:
        WriteError: the client library is not installed, or its configuration cannot be used.
    """
    try:
        from azure.core.pipeline.transport import RequestsTransport
        from azure.storage.blob import ContainerClient, ExponentialRetry
    except ImportError as error:
        raise WriteError(
            "a place on Azure needs azure-storage-blob, which is not installed",
            "Install it on every machine that runs tasks: pip install 'dil-spark[azure]'.",
        ) from error
    environ = os.environ  # noqa: TID251 - variables of Azure's tools, which its library ignores
    session = requests.Session()
    refuse_torn_answers(session)
    options: dict[str, Any] = {
        "retry_policy": ExponentialRetry(
            initial_backoff=0, increment_base=2, retry_total=3, random_jitter_range=1
        ),
        "transport": RequestsTransport(
            session=session, connection_timeout=_CONNECT, read_timeout=_READ
        ),
        "user_agent": f"dil-spark/{__version__}",
    }
    account = place.host.partition(".")[0].lower()
    try:
        text = environ.get(_CONNECTION, "")
        parts = dict(part.partition("=")[::2] for part in text.split(";"))
        host = urlsplit(parts.get("BlobEndpoint", "")).hostname or ""
        named = parts.get("AccountName") or host.partition(".")[0]
        if named.lower() == account:
            return ContainerClient.from_connection_string(text, place.bucket, **options)
        url = f"https://{place.host.replace('.dfs.', '.blob.', 1)}"
        credential = _credential(account, environ)
        return ContainerClient(url, place.bucket, credential=credential, **options)
    except ValueError:
        # The library's message might contain the key.
        raise WriteError(
            f"the client of {place.root} cannot be created",
            f"Check the form of {_CONNECTION}, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN.",
        ) from None


@contextmanager
def translated_errors(path: str, at: str) -> Iterator[None]:
    """Translate the client library's errors.

    No error is chained: the library's errors contain addresses, and these may have a signature.

    Raises:
        FileNotFoundError: the blob to be read or copied does not exist.
        ObjectExistsError: a condition of the request was not met.
        WriteError: any other failure.
    """
    from azure.core import exceptions as azure

    try:
        yield
    except azure.AzureError as error:
        if isinstance(error, azure.HttpResponseError) and error.response is not None:
            raise _refusal(error, path, at) from None
        if isinstance(error, azure.ClientAuthenticationError):
            what = f"{path}: there are no credentials for {at} ({reason(error)})"
            raise WriteError(what, _KEYS_FIX) from None
        kind = type(error).__name__.removesuffix("Error")
        raise WriteError(f"{path}: {at} cannot be reached ({kind})", _SERVICE_FIX) from None


def _refusal(error: Any, path: str, at: str) -> Exception:  # of the library
    """Return DIL's error for an answer that refuses a request."""
    # The type of the library if it knows the code, else text.
    known = getattr(error, "error_code", None) or ""
    code = str(getattr(known, "value", known))
    if code in _NO_CONTAINER:
        return WriteError(f"{path}: there is no such container at {at}", _CONTAINER_FIX)
    if code in _GONE or (error.status_code == HTTPStatus.NOT_FOUND and not code):
        return FileNotFoundError(path)
    if code in _TAKEN or (error.status_code == HTTPStatus.PRECONDITION_FAILED and not code):
        return ObjectExistsError(path)
    what = f"{path}: {at} answers {code or error.status_code}"
    if code == "CannotVerifyCopySource":
        return WriteError(what, _COPY_FIX)
    if code in _KEYS or error.status_code == HTTPStatus.UNAUTHORIZED:
        return WriteError(what, _KEYS_FIX)
    is_forbidden = error.status_code == HTTPStatus.FORBIDDEN
    return WriteError(what, _RIGHTS_FIX if is_forbidden else _SERVICE_FIX)


def _credential(account: str, environ: Mapping[str, str]) -> Any:  # of many kinds
    """Return the credential of an account: from Azure's variables, else azure-identity's chain."""
    named = environ.get("AZURE_STORAGE_ACCOUNT") or environ.get("AZURE_STORAGE_ACCOUNT_NAME") or ""
    if named.lower() in {"", account}:
        key = environ.get("AZURE_STORAGE_KEY") or environ.get("AZURE_STORAGE_ACCOUNT_KEY")
        if key:
            return {"account_name": account, "account_key": key}
        signature = environ.get("AZURE_STORAGE_SAS_TOKEN", "")
        if signature:
            # A token given as text becomes part of each address; for a copy, the service reads the
            # source by its address.
            return signature.removeprefix("?")
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()
