"""Checks shared files, in which a run, a compaction or a merge wrote rows of several work units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from dil.errors import ConfigError, StateError
from dil.model.dataset import PublishedFile
from dil.model.job import PublishingSpec, PublishMode
from dil.publishing.layout import MERGED, META, SHARED, dataset_dir, unit_hash_in


class SizedFile(Protocol):
    """A staged or a published file."""

    @property
    def bytes(self) -> int:
        """Return the size of the file in bytes."""


F = TypeVar("F", bound=SizedFile)


def is_small(file: SizedFile, target: int) -> bool:
    """Return whether a file has less than half of the target size in bytes."""
    return 2 * file.bytes < target


def packed(files: Sequence[F], target: int, most: int | None = None) -> Iterator[tuple[F, ...]]:
    """Yield groups of two or more neighbouring files that together have about the target size.

    Args:
        files: Small files.
        target: The size of a file in bytes; no group is larger.
        most: The largest number of files in a group.
    """
    held: list[F] = []
    size = 0
    for file in files:
        if held and (size + file.bytes > target or len(held) == most):
            yield from [tuple(held)] if len(held) > 1 else []
            held, size = [], 0
        held.append(file)
        size += file.bytes
    if len(held) > 1:
        yield tuple(held)


def misfit(file: PublishedFile) -> str:
    """Return the problem if a file's rows do not belong to exactly one work unit each, else ""."""
    end = 0
    for each in file.units:
        if each.start < end or each.rows < 0:
            return f"row {each.start:,} belongs to two work units"
        if each.start > end:
            return f"rows {end:,} to {each.start - 1:,} belong to no work unit"
        end += each.rows
    if not file.units or end == file.rows:
        return ""
    return f"its work units have {end:,} rows, but the file has {file.rows:,}"


def refuse_misfit(file: PublishedFile) -> None:
    """Raise if some rows of a file belong to no work unit, before rows are taken out of it.

    Raises:
        StateError: such rows would be lost or doubled.
    """
    wrong = misfit(file)
    if wrong:
        raise StateError(
            f"the dataset's manifest does not give each row of {file.uri} one work unit: {wrong}",
            "Nothing was changed. `dil state verify` lists such files and says what to do.",
        )


def refuse_window_replace(spec: PublishingSpec, live: Iterable[PublishedFile]) -> None:
    """Raise if a work unit to replace shares a file with rows of other work units.

    Raises:
        ConfigError: files were merged under another publish mode.
    """
    if spec.mode is not PublishMode.WINDOW_REPLACE:
        return
    shared = next((file for file in live if file.has_unknown_units), None)
    if shared is not None:
        raise ConfigError.single(
            "ms.publish.mode",
            f"is {spec.mode}, and {shared.uri} holds rows of several work units, which a merge or"
            " `dil compact` wrote together under another mode: rows that are read again would"
            " be doubled",
            "Keep the mode as it was, or read everything again once with ms.publish.mode=replace.",
        )


def refuse_unlisted(spec: PublishingSpec, untracked: Iterable[PublishedFile]) -> None:
    """Raise if a shared file is in no manifest, before work units are replaced.

    ``untracked`` are ``publisher.untracked_files``; a file's name shows whether the file holds rows
    of several units.

    Raises:
        StateError: the manifest that listed the file no longer exists; nothing was decided.
    """
    if spec.mode is not PublishMode.WINDOW_REPLACE:
        return
    words = (SHARED, MERGED)
    shared = next((file.uri for file in untracked if unit_hash_in(file.uri) in words), None)
    if shared is not None:
        raise StateError(
            f"{shared} holds rows of several work units, and no manifest of the dataset says which"
            " rows belong to which: rows that are read again would be doubled",
            f"Restore {dataset_dir(spec)}/{META} from a copy, or read everything again once with"
            " ms.publish.mode=replace.",
        )
