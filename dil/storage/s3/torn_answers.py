"""Makes clients of S3 repeat a request whose answer broke off among its headers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

# Whole answers to these requests have a body; those below say how long the object is.
_WITH_BODY = frozenset(
    {"CompleteMultipartUpload", "CopyObject", "CreateMultipartUpload", "DeleteObjects",
     "ListMultipartUploads", "ListObjectsV2", "UploadPartCopy"}
)  # fmt: skip
_WITH_LENGTH = frozenset({"GetObject", "HeadObject"})
_SUCCESS = (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
_FRAMES = ("content-length", "transfer-encoding")
_BROKE_OFF = (
    b"<Error><Code>IncompleteAnswer</Code>"
    b"<Message>the connection ended among the headers of the answer</Message></Error>"
)


def repeat_torn_answers(client: Any) -> None:  # botocore has no types
    """Make a client treat an answer that broke off among its headers as a failure of the service.

    Otherwise the client reads an answer without a body: an empty list, or an upload without an id.
    """
    client.meta.events.register("before-parse.s3", _fail_if_torn)


def _fail_if_torn(operation_model: Any, response_dict: dict[str, Any], **_: object) -> None:
    if response_dict["status_code"] not in _SUCCESS:
        return
    headers = response_dict["headers"]
    is_torn = (operation_model.name in _WITH_BODY and not response_dict["body"]) or (
        operation_model.name in _WITH_LENGTH and not any(name in headers for name in _FRAMES)
    )
    if is_torn:
        # The client retries after 500, and reads the text of the error from bytes: the body of
        # GetObject is a stream.
        response_dict.update(status_code=HTTPStatus.INTERNAL_SERVER_ERROR.value, body=_BROKE_OFF)
