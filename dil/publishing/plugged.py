"""Calls a destination class of the job's own: ``ms.destination.class``."""

from __future__ import annotations

from typing import TypeVar, cast

from dil.errors import PluginFailureError
from dil.model.dataset import Commit, Intent, Move, Owner, PublishedFile
from dil.model.job import DestinationSpec, PublishingSpec
from dil.model.report import MergedRows
from dil.spi.destination import Destination, DestinationContext
from dil.spi.plugin_failures import translated_plugin_errors
from dil.spi.registry import load
from dil.storage import Filesystem

T = TypeVar("T")


def plugged_destination(
    spec: PublishingSpec, named: DestinationSpec, filesystem: Filesystem
) -> Destination:
    """Return the destination that a job names; its errors name the class's file and line.

    Raises:
        PluginFailureError: the destination cannot be created.
    """
    what = named.ref.qualname
    kind = cast("type[Destination]", load(named.ref))
    with translated_plugin_errors(what):
        inner = kind(DestinationContext(spec, filesystem, named.properties))
    return _Translating(inner, what)


class _Translating(Destination):
    """Calls a destination class of the job's own, and translates its errors to DIL's.

    It calls no methods for tables of files, because a class of the job's own keeps no earlier
    versions.
    """

    def __init__(self, inner: Destination, what: str) -> None:
        super().__init__(inner.context)
        self._inner = inner
        self._what = what
        self.merges = inner.merges

    @property
    def merged(self) -> MergedRows | None:  # type: ignore[override]
        return self._inner.merged

    def check(self) -> None:
        with translated_plugin_errors(self._what):
            self._inner.check()

    def claim(self, owner: Owner) -> None:
        with translated_plugin_errors(self._what):
            self._inner.claim(owner)

    def live(self) -> tuple[PublishedFile, ...]:
        with translated_plugin_errors(self._what):
            return tuple(self._inner.live())

    def uri(self, path: str) -> str:
        with translated_plugin_errors(self._what):
            return self._is(str, self._inner.uri(path), "uri")

    def next_sequence(self) -> int:
        with translated_plugin_errors(self._what):
            return self._is(int, self._inner.next_sequence(), "next_sequence")

    def landed(self, source: str) -> int | None:
        with translated_plugin_errors(self._what):
            return self._inner.landed(source)

    def has_others(self, source: str) -> bool:
        with translated_plugin_errors(self._what):
            return self._is(bool, self._inner.has_others(source), "has_others")

    def late_files(self) -> tuple[str, ...]:
        with translated_plugin_errors(self._what):
            return tuple(self._inner.late_files())

    def expired(self, system_time: int) -> tuple[PublishedFile, ...]:
        with translated_plugin_errors(self._what):
            return tuple(self._inner.expired(system_time))

    def missing(self) -> PublishedFile | None:
        with translated_plugin_errors(self._what):
            return self._inner.missing()

    def spared(self, commit: Commit) -> Commit:
        with translated_plugin_errors(self._what):
            return self._is(Commit, self._inner.spared(commit), "spared")

    def require_fit(self, commit: Commit) -> None:
        with translated_plugin_errors(self._what):
            self._inner.require_fit(commit)

    def carry_out(self, intent: Intent) -> None:
        with translated_plugin_errors(self._what):
            self._inner.carry_out(intent)

    def has_landed(self, intent: Intent) -> bool:
        with translated_plugin_errors(self._what):
            return self._is(bool, self._inner.has_landed(intent), "has_landed")

    def lost(self, intent: Intent) -> tuple[Move, ...]:
        with translated_plugin_errors(self._what):
            return tuple(self._inner.lost(intent))

    def fence(self, intent: Intent) -> None:
        with translated_plugin_errors(self._what):
            self._inner.fence(intent)

    def is_given_up(self, intent: Intent) -> bool:
        with translated_plugin_errors(self._what):
            return self._is(bool, self._inner.is_given_up(intent), "is_given_up")

    def _is(self, kind: type[T], found: T, method: str) -> T:
        """Return an answer of the right type; a wrong type, such as None for False, may lose rows.

        Raises:
            PluginFailureError: the answer has another type.
        """
        if isinstance(found, kind):
            return found
        raise PluginFailureError(
            f"{self._what}.{method} returned {type(found).__name__}, not {kind.__name__}",
            "Correct the class that ms.destination.class names.",
        )
