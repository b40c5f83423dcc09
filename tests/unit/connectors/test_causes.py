"""What stands behind the errors of client libraries."""

from __future__ import annotations

import socket

import botocore.exceptions as aws
import pytest
import urllib3

from connectors.causes import causes_of

REASON = socket.gaierror("no such host")


def raised_from(reason: BaseException) -> Exception:
    error = RuntimeError("failed")
    error.__cause__ = reason
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(REASON),
        raised_from(REASON),
        urllib3.exceptions.MaxRetryError(None, "/", REASON),  # type: ignore[arg-type]
        aws.EndpointConnectionError(endpoint_url="http://s3", error=REASON),
    ],
    ids=["in its arguments", "as its cause", "as its reason", "in its members"],
)
def test_the_cause_is_found_wherever_a_library_keeps_it(error):
    assert list(causes_of(error))[:2] == [error, REASON]


def test_errors_that_caused_each_other_come_to_an_end():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert {first, second} == set(causes_of(first))
