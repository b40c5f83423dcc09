"""Shared files: they hold rows of several work units, since their run, a compaction or a merge."""

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
        """Return the bytes of the file."""


F = TypeVar("F", bound=SizedFile)


def is_small(file: SizedFile, target: int) -> bool:
    """Return whether a file has less than half the bytes that files are to have."""
    return 2 * file.bytes < target


def packed(files: Sequence[F], target: int, most: int | None = None) -> Iterator[tuple[F, ...]]:
    """Yield neighbours, two or more, that are together about as large as a file should be.

    Args:
        files: Small files.
        target: How many bytes a file should have; none gets more.
        most: How many files become one at most.
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
    """Return what is wrong where work units do not have each row of their file once, else ""."""
    end = 0
    for each in file.units:
        if each.start < end or each.rows < 0:
            return f"row {each.start:,} is of two work units"
        if each.start > end:
            return f"rows {end:,} to {each.start - 1:,} are of no work unit"
        end += each.rows
    if not file.units or end == file.rows:
        return ""
    return f"its work units have {end:,} rows, and it has {file.rows:,}"


def refuse_misfit(file: PublishedFile) -> None:
    """Refuse to take rows out of a file, or rewrite it, where some would belong to no work unit.

    Raises:
        StateError: they would be lost, or doubled.
    """
    wrong = misfit(file)
    if wrong:
        raise StateError(
            f"the dataset's manifest does not say whose each row of {file.uri} is: {wrong}",
            "Nothing was done with it. `dil state verify` lists such files, and what to do.",
        )


def refuse_window_replace(spec: PublishingSpec, live: Iterable[PublishedFile]) -> None:
    """Refuse to replace the files of one work unit where its rows are among others'.

    Raises:
        ConfigError: the mode was another one when files were put together.
    """
    if spec.mode is not PublishMode.WINDOW_REPLACE:
        return
    shared = next((file for file in live if file.has_unknown_units), None)
    if shared is not None:
        raise ConfigError.single(
            "ms.publish.mode",
            f"is {spec.mode}, and {shared.uri} holds rows of several work units, which a merge or"
            " `dil compact` put together under another mode: rows that are read again would be"
            " there twice",
            "Keep the mode as it was, or read everything anew once with ms.publish.mode=replace.",
        )


def refuse_unlisted(spec: PublishingSpec, untracked: Iterable[PublishedFile]) -> None:
    """Refuse to replace work units while a file has rows of several and no manifest lists which.

    ``untracked`` are ``publisher.untracked_files``; their names show which hold several units.

    Raises:
        StateError: the manifest that listed the file is gone; nothing was decided.
    """
    if spec.mode is not PublishMode.WINDOW_REPLACE:
        return
    words = (SHARED, MERGED)
    shared = next((file.uri for file in untracked if unit_hash_in(file.uri) in words), None)
    if shared is not None:
        raise StateError(
            f"{shared} holds rows of several work units, and no manifest of the dataset says which"
            " rows are whose: what is read again would be there twice",
            f"Restore {dataset_dir(spec)}/{META} from a copy, or read everything anew once with"
            " ms.publish.mode=replace.",
        )
