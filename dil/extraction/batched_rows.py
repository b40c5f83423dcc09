"""Combines payload rows into batches: several rows in one request (DIL sends one per request)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from dil.model.json import JsonObject


def batched_rows(rows: Iterable[JsonObject], size: int, field: str) -> Iterator[JsonObject]:
    """Yield objects whose single member ``field`` is an array of up to ``size`` rows, in order.

    Without a ``field`` the rows stay unchanged. One batch is in memory.

    >>> list(batched_rows([{"a": 1}, {"a": 2}, {"a": 3}], 2, "rows"))
    [{'rows': [{'a': 1}, {'a': 2}]}, {'rows': [{'a': 3}]}]
    """
    if not field:
        yield from rows
        return
    left = iter(rows)
    while batch := list(islice(left, size)):
        yield {field: batch}
