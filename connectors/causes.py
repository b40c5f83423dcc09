"""Finds the causes of an error of a client library."""

from __future__ import annotations

from collections.abc import Iterator

_DEPTH = 20  # Causes may form a ring.


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the nearest first.

    urllib3 keeps causes in ``reason`` or in arguments, botocore in ``kwargs``.
    """
    waiting = [error]
    for _ in range(_DEPTH):
        if not waiting:
            return
        found = waiting.pop(0)
        yield found
        inner = (
            *found.args,
            getattr(found, "kwargs", {}).get("error"),
            getattr(found, "reason", None),
            found.__cause__,
            found.__context__,
        )
        waiting += [each for each in inner if isinstance(each, BaseException)]
