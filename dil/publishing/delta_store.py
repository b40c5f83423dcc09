"""Opens the Delta table in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from dil.errors import StateError
from dil.publishing.table_files import words
from dil.storage import Filesystem

# The first bytes of a transaction's file identify it, because they hold its time or names of files.
_BEGINNING = 4096


class NewestTable:
    """The table of a folder, which is loaded once; later looks load only its new commits."""

    def __init__(self, filesystem: Filesystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._table: DeltaTable | None = None
        self._options: Mapping[str, str] = {}
        self._version = -1
        self._beginning: bytes | None = None

    @property
    def state(self) -> object:
        """Return a mark that identifies the table's state at the last look."""
        return self._version, self._beginning

    def look(self) -> DeltaTable | None:
        """Return the table at its newest version, None if there is no table.

        Raises:
            StateError: the table cannot be read.
            WriteError: the store of the table cannot be reached.
        """
        # The options of some stores hold credentials, which expire while rows are read.
        options = dict(self._filesystem.options_of(self._folder))
        if self._table is None or options != self._options or not self._is_continued():
            self._table = self._opened(options)
            self._options = options
        else:
            with _translated_errors(self._folder):
                self._table.update_incremental()
        self._version = -1 if self._table is None else self._table.version()
        self._beginning = self._transaction()
        return self._table

    def _is_continued(self) -> bool:
        """Return whether the log still has the transaction that was the newest at the last look.

        Someone may have moved the folder away and put another table in its place.
        """
        return self._beginning is not None and self._beginning == self._transaction()

    def _transaction(self) -> bytes | None:
        """Return the first bytes of the newest known transaction, None if it no longer exists."""
        path = f"{self._folder}/_delta_log/{self._version:020}.json"
        try:
            with self._filesystem.open_input(path) as stream:
                return stream.read(_BEGINNING)
        except FileNotFoundError:
            return None

    def _opened(self, options: dict[str, str]) -> DeltaTable | None:
        with _translated_errors(self._folder):
            try:
                return DeltaTable(self._filesystem.uri(self._folder), storage_options=options)
            except TableNotFoundError:
                return None


@contextmanager
def _translated_errors(folder: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        raise StateError(
            f"the Delta table at {folder} cannot be read: {words(error)}",
            "Check its _delta_log; nothing was changed.",
        ) from error
