"""Masks the secrets of the running task, preview or query in texts that are shortened.

A cut may go through a secret, and no later search finds the remaining half. So code that shortens a
text of a source masks the text first. A plug-in does not know the secrets, so its caller provides
the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_mask: ContextVar[Callable[[str], str]] = ContextVar("mask", default=str)


@contextmanager
def masking(mask: Callable[[str], str]) -> Iterator[None]:
    """Let ``masked`` use ``mask`` inside the block, in this thread."""
    before = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(before)


def masked(text: str) -> str:
    """Return a text without the secrets of the running task."""
    return _mask.get()(text)
