"""Deletes files that only replaced versions of a Delta table need; finds deletion vectors."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dil.errors import WriteError
from dil.publishing.table_files import words
from dil.storage import Filesystem


def marked_names(table: DeltaTable) -> frozenset[str] | None:
    """Return the names of files with a deletion vector; None if the library cannot list them."""
    if not hasattr(table, "deletion_vectors"):  # Earlier releases of the library lack the method.
        return None
    reader = pa.RecordBatchReader.from_stream(table.deletion_vectors())
    paths = (path for batch in reader for path in batch.column("filepath").to_pylist())
    return frozenset(unquote(path).rpartition("/")[2] for path in paths)


def vacuum(
    table: DeltaTable, folder: str, filesystem: Filesystem, hours: int, *, is_look: bool
) -> tuple[str, ...]:
    """Delete the files of versions replaced more than ``hours`` ago; return their paths.

    Args:
        table: The table at its newest version.
        folder: The folder of the table.
        filesystem: The filesystem of the folder.
        hours: How many hours files are kept after their version was replaced.
        is_look: Whether the files are only listed and not deleted.

    Returns:
        The absolute paths of the files.

    Raises:
        WriteError: the log or the store refused the deletion.
    """
    try:
        # The log still names files that an earlier vacuum deleted, in several forms.
        listed = table.vacuum(hours, enforce_retention_duration=False)
        present = {file.path for file in filesystem.files(folder)}
        gone = present.intersection(
            path if path.startswith(folder) else f"{folder}/{path}" for path in listed
        )
        if gone and not is_look:
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
    except (DeltaError, OSError) as error:
        raise WriteError(
            f"the Delta table at {folder} cannot be vacuumed: {words(error)}",
            "Its rows are as they were, but some of the files may be gone. Check the store's"
            " message and your rights to delete there, then run again.",
        ) from error
    return tuple(sorted(gone))
