"""Asks for one page of the list of a bucket, until the answer is whole."""

from __future__ import annotations

import http.client
from typing import Any, cast

_TRIES = 3


def list_page(client: Any, **options: object) -> dict[str, Any]:  # botocore has no types
    """Return a page of ``list_objects_v2``.

    If a connection ends among the headers of an answer, botocore takes the answer for an empty
    list. A whole answer says whether the list continues.

    Raises:
        RemoteDisconnected: several answers broke off.
    """
    for _ in range(_TRIES):
        page = cast("dict[str, Any]", client.list_objects_v2(**options))
        if "IsTruncated" in page:
            return page
    raise http.client.RemoteDisconnected("the answer ended before its body")
