"""Removes published files from a dataset for an operator's act, and brings such files back.

The files are first copied to ``<dataset>/_dil/withdrawn/<act>/``, so that undo can bring them back;
then they leave the dataset as in a replace: intent, manifest, files. A crash before the intent
leaves copies that no run reads; after a later crash the next run finishes the act.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dil.errors import StateError, WriteError
from dil.model.dataset import Move, PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishingSpec
from dil.publishing.dumps import is_in_place, is_lost
from dil.publishing.layout import META, dataset_dir
from dil.spi.state_store import StateStore
from dil.storage import Filesystem

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class _Copy:
    path: str
    file: PublishedFile


def require_recorded(store: StateStore) -> None:
    """Raise if the chain never recorded a file, because then the chain cannot record a removal.

    Raises:
        StateError: no block of the chain names a schema.
    """
    if next(iter(store.blocks_of_kind("SetDataSchema")), None) is None:
        raise StateError(
            "these files were published while no state was kept, so the chain does not know them",
            "Run the command with --keep-files, and move the files away yourself.",
        )


def withdraw(
    filesystem: Filesystem, spec: PublishingSpec, act_id: str, files: Sequence[PublishedFile]
) -> None:
    """Copy files to the act's folder, and then write their list.

    Raises:
        StateError: a file differs from the file that was published.
    """
    folder = act_folder(spec, act_id)
    copies = []
    for number, file in enumerate(files):
        path = f"{folder}/{number}-{file.uri.rpartition('/')[2]}"
        _copy(filesystem, file, path)
        copies.append(_Copy(path, file))
    _list(filesystem, folder, copies)


def bring_back(
    filesystem: Filesystem, spec: PublishingSpec, act_id: str, uris: frozenset[str]
) -> tuple[Move, ...]:
    """Return the moves that bring the files of an act back into the dataset.

    Raises:
        StateError: a copy no longer exists, or a later dumped file has the name of one of the
            files.
    """
    folder = act_folder(spec, act_id)
    moves = tuple(move for move in _kept(filesystem, folder) if move.target.uri in uris)
    if len(moves) != len(uris):
        raise StateError(
            f"{len(uris) - len(moves)} of {len(uris)} files that {act_id} withdrew are not at"
            f" {folder} any more",
            "Restore that folder from a copy, or use `dil state rewind`: then runs read the work"
            " units that lost files again. Nothing was changed.",
        )
    taken = [move.target.uri for move in moves if _is_taken(filesystem, move)]
    if taken:
        raise StateError(
            f"{taken[0]} was dumped again since {act_id}",
            "The older file would replace it. Nothing was changed; the copy of the older file is"
            f" in {folder}.",
        )
    return moves


def copies(
    filesystem: Filesystem, spec: PublishingSpec, uris: Collection[str]
) -> Mapping[str, Move]:
    """Return, by URI, the moves that bring back files that any act withdrew."""
    if not uris:
        return {}
    root = act_folder(spec, "").rstrip("/")
    return {
        move.target.uri: move
        for act_id in filesystem.folders(root)
        for move in _kept(filesystem, f"{root}/{act_id}")
        if move.target.uri in uris and not _is_taken(filesystem, move)
    }


def keep_copies(
    filesystem: Filesystem, spec: PublishingSpec, moves: Iterable[Move]
) -> tuple[Move, ...]:
    """Let a given-up undo be repeated; return the moves of files that are not copies.

    Copies that were moved into the dataset return to their folder. All copies get other names
    there, so that a driver that decided these moves and wakes up later finds no copy. A file in a
    table's folder stays there too, because earlier versions of the table may list it. This function
    may be repeated.

    Raises:
        WriteError: the store refused the move.
    """
    root = act_folder(spec, "")
    others: list[Move] = []
    by_folder: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        folder = move.source.rpartition("/")[0]
        (by_folder[folder] if folder.startswith(root) else others).append(move)
    is_table = spec.table.format is not TableFormat.FILES
    for folder, found in by_folder.items():
        _rename_copies(filesystem, folder, found, is_table=is_table)
    return tuple(others)


def _rename_copies(
    filesystem: Filesystem, folder: str, moves: Sequence[Move], *, is_table: bool
) -> None:
    known = _listed(filesystem, folder)
    sources = {move.source for move in moves}
    renamed = {
        copy.file.uri for copy in known if copy.path not in sources and filesystem.exists(copy.path)
    }
    left = [
        move for move in moves if move.target.uri not in renamed and not is_lost(move, filesystem)
    ]
    # A copy's name is a number and the name of the copied file.
    numbers = (int(copy.path.rpartition("/")[2].partition("-")[0]) for copy in known)
    copies = [
        _Copy(f"{folder}/{number}-{move.source.rpartition('/')[2].partition('-')[2]}", move.target)
        for number, move in enumerate(left, start=max(numbers, default=-1) + 1)
    ]
    pairs = list(zip(left, copies, strict=True))
    for move, copy in pairs:
        if is_table and not filesystem.exists(move.source):
            filesystem.delete_file(copy.path)  # An interrupted earlier call may have left a part.
            _copy(filesystem, move.target, copy.path)
    # The list has the old and the new name of each copy, so that every copy is listed even if this
    # function is interrupted from here on.
    _list(filesystem, folder, [*known, *copies])
    for move, copy in pairs:
        if filesystem.exists(move.source):
            filesystem.move(move.source, copy.path)
        elif not is_table:
            filesystem.move(filesystem.path_of(move.target.uri), copy.path)
    filesystem.sync_folders([folder])
    for move in moves:
        filesystem.delete_file(move.source)
        if not is_table and (not move.target.is_dump or is_in_place(move, filesystem)):
            filesystem.delete_file(filesystem.path_of(move.target.uri))
    here = [copy for copy in (*known, *copies) if filesystem.exists(copy.path)]
    _list(filesystem, folder, here)


def sweep(filesystem: Filesystem, moves: Sequence[Move]) -> None:
    """Delete the folders that hold no copy after these moves."""
    for folder in sorted({move.source.rpartition("/")[0] for move in moves}):
        if not _kept(filesystem, folder):
            filesystem.delete_tree(folder)


def _kept(filesystem: Filesystem, folder: str) -> tuple[Move, ...]:
    """Return the moves that bring back the copies in an act's folder."""
    known = _listed(filesystem, folder)
    return tuple(Move(copy.path, copy.file) for copy in known if filesystem.exists(copy.path))


def _listed(filesystem: Filesystem, folder: str) -> list[_Copy]:
    data = filesystem.content(f"{folder}/files.json")
    return [] if data is None else msgspec.json.decode(data, type=list[_Copy])


def _list(filesystem: Filesystem, folder: str, copies: Sequence[_Copy]) -> None:
    filesystem.put(f"{folder}/files.json", msgspec.json.encode(copies))


def _is_taken(filesystem: Filesystem, move: Move) -> bool:
    """Return whether a later dumped file has the name of a withdrawn file."""
    return move.target.is_dump and filesystem.exists(filesystem.path_of(move.target.uri))


def act_folder(spec: PublishingSpec, act_id: str) -> str:
    """Return the folder of the files that an act withdrew."""
    return f"{dataset_dir(spec)}/{META}/withdrawn/{act_id}"


def _copy(filesystem: Filesystem, file: PublishedFile, path: str) -> None:
    digest = hashlib.sha256()
    try:
        with (
            filesystem.open_input(filesystem.path_of(file.uri)) as source,
            filesystem.open_output(path) as target,
        ):
            while piece := source.read(_PIECE):
                digest.update(piece)
                target.write(piece)
    except FileNotFoundError as error:
        raise StateError(
            f"{file.uri} cannot be withdrawn: it no longer exists",
            "Run `dil state verify`, which lists such files.",
        ) from error
    except OSError as error:
        raise WriteError(
            f"{path}: {error.strerror}", "Check free space and permissions there."
        ) from error
    if file.sha256 and digest.hexdigest() != file.sha256:
        raise StateError(
            f"{file.uri} is not the file that was published: its SHA-256 differs",
            "Nothing was changed. Restore the file, or move it away yourself.",
        )
