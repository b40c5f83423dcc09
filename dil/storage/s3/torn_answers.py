"""Makes clients of S3 repeat a request whose answer broke off, or came from another program."""

from __future__ import annotations

import re
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
