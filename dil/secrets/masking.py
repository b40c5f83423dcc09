"""Masks the secrets of the running task, preview or query in texts that are shortened.

A cut goes through a secret as through anything else, and what is left of it is found by no search.
So whoever shortens a text of a source masks it first; which secrets there are is for its caller to
say, since a plug-in does not know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_mask: ContextVar[Callable[[str], str]] = ContextVar("mask", default=str)


@contextmanager
def masking(mask: Callable[[str], str]) -> Iterator[None]:
    """Let ``masked`` use this mask inside the block, in this thread."""
    before = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(before)


def masked(text: str) -> str:
    """Return a text without the secrets of the running task."""
    return _mask.get()(text)
