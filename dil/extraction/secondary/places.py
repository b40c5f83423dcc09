"""Finds the files at a path of secondary input (docs/secondary-input.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import TypeAlias

from dil.storage import Filesystem

LiveFiles: TypeAlias = Callable[[Filesystem, str], Sequence[str] | None]
"""Returns the paths of a dataset's live files; None if no run has published to the dataset."""

# The folder in which a dataset written by DIL keeps its own records (rule U1).
_META = "_dil"
_HIDDEN = ("_", ".")


class InputNotThereError(Exception):
    """The path does not exist yet, or one of its files was removed meanwhile."""


def find_files(filesystem: Filesystem, path: str, live_files: LiveFiles) -> tuple[str, ...]:
    """Return the files of a path, sorted: the file itself, or all below a folder.

    Files and folders whose name begins with ``_`` or ``.`` are skipped. In a dataset written by DIL
    only live files count, so that neither an incomplete publish nor replaced files are read. This
    holds for datasets below the path, and for the dataset that contains the path. If the path names
    a hidden folder of a dataset, such as the folder of refused rows, the folder is read like any
    other folder.

    Raises:
        InputNotThereError: the path does not exist, or is a dataset that no run has published to.
        OSError, DilError: the store cannot be read.
    """
    if _is_file(filesystem, path):
        return (path,)
    if not filesystem.exists(path):
        raise InputNotThereError(f"{path} does not exist")
    around = _dataset_around(filesystem, path)
    if around is not None and not _names_hidden(path, around):
        return tuple(sorted(_below(_published(filesystem, around, live_files), path)))
    listed = [file.path for file in filesystem.files(path)]
    datasets = _datasets(listed, path)
    found = [file for file in listed if not any(_is_below(file, folder) for folder in datasets)]
    for folder in datasets:
        found += _published(filesystem, folder, live_files)
    return tuple(sorted(_below(found, path)))


def _is_file(filesystem: Filesystem, path: str) -> bool:
    try:
        filesystem.open_input(path).close()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return False
    return True


def _dataset_around(filesystem: Filesystem, path: str) -> str | None:
    """Return the path, or else its nearest parent folder, that is a dataset written by DIL."""
    folder = path.rstrip("/")
    while folder and not folder.endswith(":/"):
        if filesystem.exists(f"{folder}/{_META}"):
            return folder
        folder = folder.rpartition("/")[0]
    return None


def _names_hidden(path: str, dataset: str) -> bool:
    """Return whether a path leads into a part of a dataset that holds no published data."""
    return any(part.startswith(_HIDDEN) for part in path[len(dataset) :].split("/") if part)


def _datasets(listed: Iterable[str], path: str) -> tuple[str, ...]:
    """Return the folders of datasets with files below a path, except in hidden folders."""
    folders = (file.rpartition(f"/{_META}/")[0] for file in listed)
    return tuple(dict.fromkeys(_below((folder for folder in folders if folder), path)))


def _published(filesystem: Filesystem, folder: str, live_files: LiveFiles) -> Sequence[str]:
    files = live_files(filesystem, folder)
    if files is None:
        raise InputNotThereError(f"{folder} belongs to a job that has published nothing yet")
    return files


def _below(files: Iterable[str], folder: str) -> list[str]:
    """Return the files below a folder, except hidden files and files in hidden folders."""
    return [
        file
        for file in files
        if _is_below(file, folder)
        and not any(part.startswith(_HIDDEN) for part in PurePosixPath(file[len(folder) :]).parts)
    ]


def _is_below(file: str, folder: str) -> bool:
    return file.startswith(f"{folder.rstrip('/')}/")
