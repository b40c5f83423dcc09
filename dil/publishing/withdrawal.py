"""Published files that an operator's act takes out of the dataset, and those it brings back.

What is taken out is copied to ``<dataset>/_dil/withdrawn/<act>/`` first, so that undo can bring it
back; then it leaves the dataset as a replace takes files away: intent, manifest, files. A crash
before the intent leaves copies that nobody reads; after it, the next run finishes the act.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dil.errors import StateError, WriteError
from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishingSpec
from dil.publishing.layout import META, dataset_dir
from dil.spi.state_store import StateStore
from dil.storage import Filesystem

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class _Copy:
    path: str
    file: PublishedFile


def require_recorded(store: StateStore) -> None:
    """Refuse where the chain never saw a file: then it cannot tell that one is taken away.

    Raises:
        StateError: no block of the chain names a schema.
    """
    if next(iter(store.blocks_of_kind("SetDataSchema")), None) is None:
        raise StateError(
            "these files were published while no state was kept, so the chain does not know them",
            "Give --keep-files, and move the files away yourself.",
        )


def withdraw(
    filesystem: Filesystem, spec: PublishingSpec, act_id: str, files: Sequence[PublishedFile]
) -> None:
    """Copy files to the act's folder, its list of them last.

    Raises:
        StateError: a file is not what was published.
    """
    folder = _folder(spec, act_id)
    copies = []
    for number, file in enumerate(files):
        path = f"{folder}/{number}-{file.uri.rpartition('/')[2]}"
        _copy(filesystem, file, path)
        copies.append(_Copy(path, file))
    filesystem.put(f"{folder}/files.json", msgspec.json.encode(copies))


def bring_back(
    filesystem: Filesystem, spec: PublishingSpec, act_id: str, uris: frozenset[str]
) -> tuple[Move, ...]:
    """Return the moves that bring the files of an act back into the dataset.

    Raises:
        StateError: a copy is gone, or a later dumped file has taken the name of one.
    """
    folder = _folder(spec, act_id)
    moves = tuple(move for move in _kept(filesystem, folder) if move.target.uri in uris)
    if len(moves) != len(uris):
        raise StateError(
            f"{len(uris) - len(moves)} of {len(uris)} files that {act_id} withdrew are not at "
            f"{folder} any more",
            "Restore that folder from a copy, or use `dil state rewind`: it lets the work units "
            "that lost files be read again. Nothing was changed.",
        )
    taken = [move.target.uri for move in moves if _is_taken(filesystem, move)]
    if taken:
        raise StateError(
            f"{taken[0]} was dumped again since {act_id}",
            "A file that was brought back would take its place. Nothing was changed; the copy is"
            f" in {folder}.",
        )
    return moves


def copies(
    filesystem: Filesystem, spec: PublishingSpec, uris: Collection[str]
) -> Mapping[str, Move]:
    """Return, by URI, the moves that bring files back which any act withdrew."""
    if not uris:
        return {}
    root = _folder(spec, "").rstrip("/")
    return {
        move.target.uri: move
        for act_id in filesystem.folders(root)
        for move in _kept(filesystem, f"{root}/{act_id}")
        if move.target.uri in uris and not _is_taken(filesystem, move)
    }


def sweep(filesystem: Filesystem, moves: Sequence[Move]) -> None:
    """Delete the folders whose last copies were brought back by these moves."""
    for folder in sorted({move.source.rpartition("/")[0] for move in moves}):
        if not _kept(filesystem, folder):
            filesystem.delete_tree(folder)


def _kept(filesystem: Filesystem, folder: str) -> tuple[Move, ...]:
    """Return the moves that bring back the copies that are still in an act's folder."""
    try:
        with filesystem.open_input(f"{folder}/files.json") as stream:
            known = msgspec.json.decode(stream.read(), type=list[_Copy])
    except FileNotFoundError:
        return ()
    return tuple(Move(copy.path, copy.file) for copy in known if filesystem.exists(copy.path))


def _is_taken(filesystem: Filesystem, move: Move) -> bool:
    """Return whether a later dumped file has the name of a withdrawn one."""
    return move.target.is_dump and filesystem.exists(filesystem.path_of(move.target.uri))


def _folder(spec: PublishingSpec, act_id: str) -> str:
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
            f"{file.uri} cannot be withdrawn: it is gone", "`dil state verify` lists such files."
        ) from error
    except OSError as error:
        raise WriteError(f"{path}: {error.strerror}", "Check space and permissions.") from error
    if file.sha256 and digest.hexdigest() != file.sha256:
        raise StateError(
            f"{file.uri} is not what was published: its SHA-256 differs",
            "Nothing was changed. Restore the file, or move it away yourself.",
        )
