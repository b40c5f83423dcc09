"""The secrets of this process that its texts must not show.

``learn`` keeps secrets that the process learned while it ran, such as fetched tokens: no job file
names them. Every text that leaves the process must mask these secrets, too. So they are kept for
the whole process, like its log.

``masking`` is for texts that are shortened: a cut may go through a secret, and no later search
finds the remaining half. So code that shortens a text of a source masks the text first. A plug-in
does not know the secrets, so its caller provides the mask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dil.model.secret import Secret

# A run of a day renews a token about a hundred times; older tokens have expired.
_KEPT = 200
_lock = threading.Lock()
_learned: list[tuple[Secret, ...]] = [()]
_mask: ContextVar[Callable[[str], str]] = ContextVar("mask", default=str)


def learn(secret: Secret) -> None:
    """Keep a secret, so that it is masked from now on."""
    with _lock:
        known = _learned[0]
        if secret and secret not in known:
            _learned[0] = (*known[-_KEPT + 1 :], secret)


def learned() -> tuple[Secret, ...]:
    """Return the learned secrets; the same object until another secret is learned."""
    return _learned[0]


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
