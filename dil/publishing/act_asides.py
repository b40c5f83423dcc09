"""Rows that an operator's act put aside, taken away when it is undone, and brought back again.

A backfill brings its rows of ``_quarantine`` and ``_failed`` along. Undoing it moves them to
``<dataset>/_dil/aside/<act>/``, where nobody takes them for rows of the dataset; undoing that moves
them back. Their names are a function of act, work unit and number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishingSpec
from dil.publishing import layout
from dil.storage import FileInfo, Filesystem

_FOLDER = "aside"


def exchanged(
    filesystem: Filesystem, spec: PublishingSpec, undone: str, act_id: str
) -> tuple[Move, ...]:
    """Return the moves that take away what an act put aside, and bring back what it took away.

    Args:
        filesystem: Where the dataset is.
        spec: How the job publishes.
        undone: The act that is taken back.
        act_id: The act that takes it back.

    Raises:
        WriteError: a folder cannot be listed.
    """
    moves = []
    for place in layout.aside_dirs(spec):
        name = place.rpartition("/")[2]
        gone, kept = f"{act_folder(spec, act_id)}/{name}", f"{act_folder(spec, undone)}/{name}"
        moves += [
            _move(filesystem, file, f"{gone}/{_name(file)}", act_id)
            for file in _files(filesystem, place)
            if _name(file).startswith(f"part-{undone}-")
        ]
        moves += [
            _move(filesystem, file, f"{place}/part-{act_id}-{_unit_and_number(file)}", act_id)
            for file in _files(filesystem, kept)
        ]
    return tuple(moves)


def sweep(filesystem: Filesystem, spec: PublishingSpec, moves: Sequence[Move]) -> None:
    """Delete the folders that these moves left empty."""
    root = f"{layout.dataset_dir(spec)}/{layout.META}/{_FOLDER}"
    for folder in sorted({move.source.rpartition("/")[0] for move in moves}):
        if folder.startswith(f"{root}/"):
            filesystem.delete_empty_folder(folder)
            filesystem.delete_empty_folder(folder.rpartition("/")[0])
            filesystem.delete_empty_folder(root)


def _files(filesystem: Filesystem, folder: str) -> Iterator[FileInfo]:
    for file in filesystem.files(folder):
        if file.path.rpartition("/")[0] == folder:
            yield file


def _move(filesystem: Filesystem, file: FileInfo, path: str, act_id: str) -> Move:
    # Of rows that were put aside neither work unit nor number nor checksum is kept.
    target = PublishedFile(
        uri=filesystem.uri(path), signature="", rows=0, bytes=file.size, sha256="", run_id=act_id
    )
    return Move(file.path, target)


def act_folder(spec: PublishingSpec, act_id: str) -> str:
    """Return the folder of the rows that an act took away."""
    return f"{layout.dataset_dir(spec)}/{layout.META}/{_FOLDER}/{act_id}"


def _name(file: FileInfo) -> str:
    return file.path.rpartition("/")[2]


def _unit_and_number(file: FileInfo) -> str:
    return "-".join(_name(file).split("-")[-2:])
