"""Files of a Delta table that only replaced versions need, and those with deleted rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dil.errors import WriteError
from dil.publishing.table_files import words
from dil.storage import Filesystem


def marks_deleted_rows(table: DeltaTable) -> bool:
    """Return whether files may be beside those of rows that say which rows are deleted."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def marked_names(table: DeltaTable) -> frozenset[str] | None:
    """Return the names of files with a deletion vector; None where the library does not know."""
    if not hasattr(table, "deletion_vectors"):  # of an earlier release
        return None
    reader = pa.RecordBatchReader.from_stream(table.deletion_vectors())
    paths = (path for batch in reader for path in batch.column("filepath").to_pylist())
    return frozenset(unquote(path).rpartition("/")[2] for path in paths)


def vacuum(
    table: DeltaTable, folder: str, filesystem: Filesystem, hours: int, *, is_look: bool
) -> tuple[str, ...]:
    """Delete the files of versions that were replaced more than ``hours`` ago.

    Args:
        table: At its newest version.
        folder: Where it is.
        filesystem: What the folder is on.
        hours: How long files are kept.
        is_look: Whether nothing is to be deleted.

    Returns:
        The paths of the files.

    Raises:
        WriteError: the log or the store refused.
    """
    try:
        # The log goes on naming files that an earlier vacuum deleted.
        listed = table.vacuum(hours, enforce_retention_duration=False)
        present = {file.path for file in filesystem.files(folder)}
        gone = present.intersection(_paths(folder, listed))
        if gone and not is_look:
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
    except (DeltaError, OSError) as error:
        raise WriteError(
            f"the Delta table at {folder} cannot be vacuumed: {words(error)}",
            "Its rows are as they were, but some of the files may be gone. Look at what the store"
            " says, and at the rights to delete there, then run again.",
        ) from error
    return tuple(sorted(gone))


def _paths(folder: str, listed: Iterable[str]) -> Iterator[str]:
    """Yield absolute paths of files, which the library names in more than one way."""
    for path in listed:
        yield path if path.startswith(folder) else f"{folder}/{path}"
