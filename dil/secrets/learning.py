"""Secrets that a process learned while it ran, such as fetched tokens: no job file names them.

Every text that leaves the process must mask these secrets, too. So they are kept for the whole
process, like its log.
"""

from __future__ import annotations

import threading

from dil.model.secret import Secret

# A run of a day renews a token about a hundred times; older tokens have expired.
_KEPT = 200
_lock = threading.Lock()
_learned: list[tuple[Secret, ...]] = [()]


def learn(secret: Secret) -> None:
    """Keep a secret, so that it is masked from now on."""
    with _lock:
        known = _learned[0]
        if secret and secret not in known:
            _learned[0] = (*known[-_KEPT + 1 :], secret)


def learned() -> tuple[Secret, ...]:
    """Return the learned secrets; the same object until another secret is learned."""
    return _learned[0]
