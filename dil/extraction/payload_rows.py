"""The rows that a work unit sends, one or several in each request (rules G4, G5 and G38)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from dil.model.json import JsonObject, JsonValue, compact

Seen: TypeAlias = Callable[[int, JsonObject, str], None]


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


class PayloadRows:
    """Gives rows in order, each with a key that is the same in every attempt and run.

    The key is the SHA-256 of job name, signature, the row as JSON with sorted members, and the
    number of equal rows before it. One row is read ahead. A hash of sixteen bytes is kept for each
    different row.
    """

    def __init__(self, rows: Iterable[JsonObject], job: str, signature: str) -> None:
        self._rows = iter(rows)
        self._owner = (job, signature)
        self._equal: dict[bytes, int] = {}
        self._sent = hashlib.sha256()
        self._next = next(self._rows, None)

    @property
    def left(self) -> int:
        """Return 0 after the last row, else 1, because the number of remaining rows is unknown."""
        return 0 if self._next is None else 1

    @property
    def sent(self) -> str:
        """Return a hash of all rows taken so far, in order."""
        return self._sent.hexdigest()

    def take(self) -> tuple[JsonObject, str]:
        """Return the next row and its key; call it only if ``left`` is not 0."""
        row = self._next
        assert row is not None  # noqa: S101 - a mistake of the caller
        self._next = next(self._rows, None)
        text = compact(_sorted(row))
        mark = hashlib.blake2b(text.encode(), digest_size=16).digest()
        before = self._equal.get(mark, 0)
        self._equal[mark] = before + 1
        self._sent.update(mark)
        named = compact([*self._owner, text, before])
        return row, hashlib.sha256(named.encode()).hexdigest()

    def skip(self, count: int, sent: str, seen: Seen | None = None) -> bool:
        """Skip ``count`` rows that were sent before; return whether they are the same, in order.

        ``seen`` gets, for each row, the number of its request (from 1), the row, and its key.
        """
        for number in range(1, count + 1):
            if not self.left:
                return False
            row, key = self.take()
            if seen is not None:
                seen(number, row, key)
        return self.sent == sent


def _sorted(value: JsonValue) -> JsonValue:
    """Return a value with the members of all its objects sorted by name."""
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [_sorted(item) for item in value]
