"""Secrets that a process learned while it ran, such as fetched tokens: no job file names them.

Whatever leaves the process as text has to mask them too, so they are kept for the whole process,
as its log is.
"""

from __future__ import annotations

import threading

from dil.model.secret import Secret

# A run of a day renews a token some hundred times; older ones have expired.
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
    """Return what was learned; the same object until there is more."""
    return _learned[0]
