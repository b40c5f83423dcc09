"""A botocore client with the settings of the AWS tools: credentials, region, endpoint, profile.

A client repeats a request whose answer broke off, or came from another program.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from dil import __version__
from dil.errors import WriteError

# Seconds. A request without a time-out could block a task for ever.
_CONNECT, _READ = 20, 120
_AWS = re.compile(r"https?://(?:[^/]*\.)?amazonaws\.com(?:\.cn)?(?::\d+)?/?", re.IGNORECASE)
# Whole answers to these requests have a body; those below say how long the object is.
_WITH_BODY = frozenset(
    {"CompleteMultipartUpload", "CopyObject", "CreateMultipartUpload", "DeleteObjects",
     "ListMultipartUploads", "ListObjectsV2", "UploadPartCopy"}
)  # fmt: skip
_WITH_LENGTH = frozenset({"GetObject", "HeadObject"})
_SUCCESS = (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
_FRAMES = ("content-length", "transfer-encoding")
_OF_OBJECTS = ("etag", "last-modified")  # S3 sends both with each object.
_BROKE_OFF = (
    b"<Error><Code>IncompleteAnswer</Code>"
    b"<Message>the connection ended among the headers of the answer</Message></Error>"
)
# ListBucketResult, CopyObjectResult and so on; with a status of success, a copy may send Error.
# rclone names the answer that begins an upload after the request.
_OF_S3 = re.compile(rb"<(?:[\w.-]+:)?(?:\w*Result|InitiateMultipartUpload|Error)[\s/>]")
_NO_S3 = (
    b"<Error><Code>ForeignAnswer</Code><Message>the answer is none of S3; a proxy may have sent"
    b" it</Message></Error>"
)


@dataclass(frozen=True, slots=True)
class S3Connection:
    """A client, and the session whose credentials the client uses."""

    session: Any
    client: Any

    @property
    def is_by_host(self) -> bool:
        """Return whether the settings put the bucket into the host name of addresses."""
        return (self.client.meta.config.s3 or {}).get("addressing_style") == "virtual"

    def client_in(self, region: str) -> Any:
        """Return a client of another region."""
        return _client(self.session, {}, region)


def connect() -> S3Connection:
    """Return the client of this process; services other than AWS get the bucket in the path.

    No request is sent yet. The tasks of one process share the client and its open connections.

    Raises:
        WriteError: the client library is not installed, or its configuration cannot be used.
    """
    environ = os.environ  # noqa: TID251 - variables that botocore reads
    given = sorted(each for each in environ.items() if each[0].startswith("AWS_"))
    places = (
        environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    return _connected(os.getpid(), tuple(given), tuple(map(_changed_at, places)))


def _changed_at(place: str) -> int:
    """Return when a settings file last changed, in ns: another program may renew the file."""
    try:
        return Path(place).expanduser().stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _connected(*state: object) -> S3Connection:
    """Return a new client; clients are cached for each process and each state of the settings."""
    del state
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError as error:
        raise WriteError(
            "a place on S3 needs botocore, which is not installed",
            "Install it on every machine that runs tasks: pip install 'dil-spark[s3]'.",
        ) from error
    try:
        session = botocore.session.Session()
        session.register_component("data_loader", models())
        client = _client(session, {})
        asked = (session.get_scoped_config().get("s3") or {}).get("addressing_style")
        if not asked and not is_of_aws(client):
            client = _client(session, {"addressing_style": "path"})
        return S3Connection(session, client)
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise WriteError(
            f"the client of S3 cannot be created: {error}",
            "Check the AWS_ variables of the environment and ~/.aws/config.",
        ) from error


def is_of_aws(client: Any) -> bool:  # botocore has no types
    """Return whether a client connects to AWS itself."""
    return _AWS.fullmatch(client.meta.endpoint_url) is not None


def _client(session: Any, s3: dict[str, str], region: str | None = None) -> Any:
    from botocore.config import Config

    client = session.create_client(
        "s3",
        region_name=region,
        config=Config(
            connect_timeout=_CONNECT,
            read_timeout=_READ,
            retries={"total_max_attempts": 4, "mode": "standard"},
            s3=s3,
            user_agent_extra=f"dil-spark/{__version__}",
            # Requests carry the MD5 of their data, which every service compares.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    repeat_torn_answers(client)
    return client


@cache
def models() -> Any:
    """Return the loader of the library's description of S3; cached, because it takes 0.1 s."""
    from botocore.loaders import create_loader

    return create_loader()


def repeat_torn_answers(client: Any) -> None:  # botocore has no types
    """Make a client treat an answer that broke off among its headers as a failure of the service.

    Otherwise the client reads an answer without a body: an empty list, or an upload without an id.
    It would read the same in a page of a proxy, such as a login, and take the page for the success
    of a write, so a page is a failure, too.
    """
    client.meta.events.register("before-parse.s3", _fail_if_unusable)


def _fail_if_unusable(operation_model: Any, response_dict: dict[str, Any], **_: object) -> None:
    if response_dict["status_code"] not in _SUCCESS:
        return
    headers = response_dict["headers"]
    is_torn, is_foreign = False, False
    if operation_model.name in _WITH_BODY:
        is_torn = not response_dict["body"]
        is_foreign = not _OF_S3.search(response_dict["body"])
    elif operation_model.name in _WITH_LENGTH:
        is_torn = not any(name in headers for name in _FRAMES)
        is_foreign = not any(name in headers for name in _OF_OBJECTS)
    elif response_dict["body"]:
        is_foreign = not _OF_S3.search(response_dict["body"])
    if is_torn or is_foreign:
        # The client retries after 500, and reads the text of the error from bytes: the body of
        # GetObject is a stream.
        response_dict.update(
            status_code=HTTPStatus.INTERNAL_SERVER_ERROR.value,
            body=_BROKE_OFF if is_torn else _NO_S3,
        )
