"""Combines payload rows into batches: several rows in one request (LinkedIn's DIL sends one)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from dil.model.json import JsonObject


def batched_rows(rows: Iterable[JsonObject], size: int, field: str) -> Iterator[JsonObject]:
    """Yield objects whose single member ``field`` is an array of up to ``size`` rows, in order.

    If ``field`` is empty, the rows stay unchanged. Memory holds one batch at a time.

    >>> list(batched_rows([{"a": 1}, {"a": 2}, {"a": 3}], 2, "rows"))
    [{'rows': [{'a': 1}, {'a': 2}]}, {'rows': [{'a': 3}]}]
    """
    if not field:
        yield from rows
        return
    left = iter(rows)
    while batch := list(islice(left, size)):
        yield {field: batch}
