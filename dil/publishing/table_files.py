"""The common part of tables of Parquet files: moves files to their names, lists and checks them.

The table's own log lists the live files. The dataset's manifest has the work unit, run and SHA-256
of these files. Files that a table no longer has stay in place, for readers of its earlier versions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path, PurePosixPath

from dil.errors import (
    CommitConflictError,
    CommitUnknownError,
    ConfigError,
    StateError,
    WriteError,
)
from dil.model.dataset import EXPIRY, Commit, Intent, Move, PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishingSpec, PublishMode
from dil.publishing import layout, manifest
from dil.publishing.destination import place_files
from dil.publishing.dumps import holds
from dil.storage import Filesystem, LocalFilesystem
from dil.storage.side_by_side import call_each
from dil.text.file_names import hive_values

FORMAT_KEY = "ms.table.format"
PARTITION_KEY = "ms.table.partition.fields"
ATTEMPTS = 20
_PURGES = {
    TableFormat.DELTA: "REORG TABLE ... APPLY (PURGE)",
    TableFormat.ICEBERG: "rewrite_data_files with delete-file-threshold=1",
}
_MOST_WORDS = 500
_COLOURS = re.compile("\x1b\\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A live file in a table's log; ``rows`` is 0 if the log does not give the number."""

    uri: str
    rows: int
    bytes: int


def with_owners(
    filesystem: Filesystem, spec: PublishingSpec, files: Iterable[TableFile]
) -> tuple[PublishedFile, ...]:
    """Return a table's live files with the manifest's facts about them.

    Files of other writers have neither signature nor run id.
    """
    known = {file.uri: file for file in manifest.live_files(filesystem, layout.dataset_dir(spec))}
    return tuple(
        known.get(file.uri) or PublishedFile(file.uri, "", file.rows, file.bytes, "", "")
        for file in files
    )


def record_owners(
    filesystem: Filesystem, intent: Intent, before: manifest.Manifest, live: Collection[str]
) -> None:
    """Write the manifest of the table's files after a commit; repeating it changes nothing.

    ``live`` are the URIs of the table's files, read after the manifest ``before``. A file that
    another writer added is not entered; a file that another writer removed leaves the manifest.
    """
    commit = replace(
        intent.commit,
        moves=tuple(move for move in intent.commit.moves if move.target.uri in live),
        removes=tuple(file for file in before.files if file.uri not in live),
    )
    manifest.advance(filesystem, intent.dataset_dir, commit, intent.sequence)


def put_in_place(moves: Sequence[Move], spec: PublishingSpec, filesystem: Filesystem) -> None:
    """Move files to their names; readers of the table do not look for them there yet.

    A move may bring a withdrawn file back from its copy. If the file is still in its old place,
    it stays there, and the copy is deleted.
    """

    def is_missing(move: Move) -> bool:
        path = filesystem.path_of(move.target.uri)
        if not filesystem.exists(path) or not filesystem.exists(move.source):
            return True
        if not holds(path, move.target, filesystem):
            return True
        filesystem.delete_file(move.source)
        return False

    missing = call_each(filesystem, is_missing, moves)
    place_files(list(compress(moves, missing)), spec, filesystem)


def replaces_everything(spec: PublishingSpec, commit: Commit) -> bool:
    """Return whether a commit replaces all rows of the table, including other writers' rows."""
    return spec.mode is PublishMode.REPLACE and commit.act is None


def uris(files: Iterable[PublishedFile]) -> frozenset[str]:
    """Return the URIs of files."""
    return frozenset(file.uri for file in files)


def make_durable(filesystem: Filesystem, paths: Iterable[str]) -> None:
    """Sync files that a library wrote, and their folders, if the store needs that."""
    if not isinstance(filesystem, LocalFilesystem):
        return
    written = [path for path in map(Path, paths) if path.exists()]
    for path in written:
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    filesystem.sync_folders(str(path.parent) for path in written)


def refuse_plain_files(filesystem: Filesystem, spec: PublishingSpec) -> None:
    """Raise if a new table would begin in a folder whose manifest lists files.

    Raises:
        ConfigError: the files are plain files, or the table that listed them no longer exists.
    """
    folder = layout.dataset_dir(spec)
    files = manifest.live_files(filesystem, folder)
    if files:
        raise ConfigError.single(
            FORMAT_KEY,
            f"is {spec.table.format}, but {folder} holds {len(files)} published files that are in"
            " no such table",
            "They were published as plain files, or the table or its catalog is gone. Choose"
            " another extract.table.name, or move the folder away and run dil state forget.",
        )


def refuse_gone(spec: PublishingSpec, gone: Collection[str]) -> None:
    """Raise if an undecided commit replaces files that the table does not have.

    Raises:
        CommitConflictError: the table lacks a file; nothing was published, and a new plan may fit.
    """
    if gone:
        raise CommitConflictError(
            f"{min(gone)} is no longer in the {spec.table.format} table: another program"
            f" changed the table",
            "Nothing was published. Run the job again.",
        )


def refuse_doubling(spec: PublishingSpec, gone: Collection[str], version: object) -> None:
    """Raise if files that a decided publish replaces have left the table since the decision.

    Raises:
        CommitUnknownError: the rows of the missing files may be in other files now, and would be
            doubled.
    """
    raise CommitUnknownError(
        f"{min(gone)} was to be replaced, but another program removed it from the"
        f" {spec.table.format} table since, which is at {version} now",
        "Nothing was published: the rows may be in a file that this program wrote, and would be"
        " doubled. Roll the table back to the version before, then run the job again, which"
        " finishes the publish first.",
    )


def taken_apart(spec: PublishingSpec, commit: Commit) -> frozenset[str]:
    """Return the URIs of removed files whose rows may be in other files, now or after an undo.

    The result leaves out files whose rows a run has read again completely, and expired files, whose
    rows are in no other file.
    """
    if commit.act is not None and commit.act.verb == EXPIRY:
        return frozenset()
    again: set[str] = set()
    if commit.act is None and spec.mode is PublishMode.WINDOW_REPLACE:
        again.update(each.signature for each in commit.run.outcomes if each.succeeded)
    return frozenset(
        file.uri for file in commit.removes if not file.signatures or file.signatures - again
    )


def refuse_marked(spec: PublishingSpec, marked: Collection[str]) -> None:
    """Raise if files to rewrite have rows marked as deleted, before anything is decided.

    Raises:
        StateError: rewriting the files would bring the deleted rows back.
    """
    if not marked:
        return
    how = f"Let that program rewrite the table without such marks ({_PURGES[spec.table.format]})"
    if spec.mode is not PublishMode.MERGE:  # A merge finds the rows in any file.
        how = "Read everything again once with ms.publish.mode=replace, or leave these rows alone"
    raise StateError(
        f"another program marked rows of {min(marked)} as deleted, in the {spec.table.format} table"
        f" at {layout.dataset_dir(spec)}: these rows would come back",
        f"Nothing was published. {how}.",
    )


def refuse_marked_since(spec: PublishingSpec, marked: Collection[str], version: object) -> None:
    """Raise if rows of a decided publish's files were marked as deleted since the decision.

    Raises:
        CommitUnknownError: the deleted rows would come back.
    """
    if marked:
        raise CommitUnknownError(
            f"another program marked rows of {min(marked)} as deleted since this publish was"
            f" decided, in the {spec.table.format} table, which is now at {version}: these rows"
            " would come back",
            "Nothing was published. Roll the table back to the version before, then run the job"
            " again, which finishes the publish first.",
        )


def gave_up(spec: PublishingSpec) -> WriteError:
    """Return the error for a table that other writers change faster than DIL can commit."""
    return WriteError(
        f"other programs changed the {spec.table.format} table of {layout.dataset_dir(spec)}"
        f" {ATTEMPTS} times while rows were published to it",
        "Run the job again: it finishes the publish first.",
    )


def partition_texts(
    spec: PublishingSpec, filesystem: Filesystem, file: PublishedFile
) -> dict[str, str | None]:
    """Return the values of a file's partition columns, from the names of its folders.

    Raises:
        WriteError: no folder of the file's path names a value of one of the columns.
    """
    folder = layout.dataset_dir(spec)
    path = PurePosixPath(filesystem.path_of(file.uri))
    texts = hive_values(path.relative_to(folder).parent.as_posix())
    missing = [name for name in spec.table.partition_fields if name not in texts]
    if missing:
        raise WriteError(
            f'{file.uri} is in no folder of a value of "{missing[0]}", by which the table is'
            " partitioned",
            f"Let {PARTITION_KEY} name columns that all rows have.",
        )
    return {name: texts[name] for name in spec.table.partition_fields}


def refuse_other_partitions(spec: PublishingSpec, found: Sequence[str]) -> None:
    """Raise if the partition columns of a table differ from the job's.

    Raises:
        ConfigError: the columns differ.
    """
    wanted = spec.table.partition_fields
    if tuple(found) != wanted:
        raise ConfigError.single(
            PARTITION_KEY,
            f'is "{",".join(wanted)}", but the table at {layout.dataset_dir(spec)} is'
            f' partitioned by "{",".join(found)}"',
            "Name these columns, or publish to another extract.table.name.",
        )


def words(error: Exception | str) -> str:
    """Return a library's message on one line, without colours."""
    return " ".join(_COLOURS.sub("", str(error)).split())[:_MOST_WORDS]
