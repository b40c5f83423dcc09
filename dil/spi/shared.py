"""Resources that the work units of one task share, such as pools of connections."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Protocol, Self, TypeVar, cast

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A resource that is closed once, after its last user."""

    def close(self) -> None:
        """Release the resource."""


C = TypeVar("C", bound=Closable)


class Shared:
    """Keeps resources by key from the first work unit that needs them to the end of the task.

    All threads of the task use it. The key of a resource that only one thread may use contains
    ``threading.get_ident()``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Hashable, Closable] = {}

    def get(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return the resource kept under a key; ``make`` creates a missing one."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = make()
        return cast("C", kept)

    def drop(self, key: Hashable) -> None:
        """Close the resource kept under a key; the next work unit creates a new one."""
        with self._lock:
            kept = self._kept.pop(key, None)
        if kept is not None:
            kept.close()

    def close(self) -> None:
        """Close all resources; a resource that cannot be closed does not keep the others open."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), {}
        for each in reversed(kept):
            try:
                each.close()
            except Exception as error:  # noqa: BLE001 - the work is done, whatever a plug-in does
                log.warning("%s was not closed: %s", type(each).__name__, type(error).__name__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
