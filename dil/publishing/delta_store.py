"""Reads the Delta table in a folder: its files and its commits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import CommitProperties, Transaction

from dil.errors import StateError
from dil.model.dataset import Commit, Intent
from dil.publishing.manifest import given_up_name
from dil.publishing.table_files import TableFile, words
from dil.storage import Filesystem
from dil.text.zones import EPOCH, MILLISECOND

# The first bytes of a transaction's file identify it, because they hold its time or names of files.
_BEGINNING = 4096
_COLUMNS = ("path", "num_records", "size_bytes")


class NewestTable:
    """The Delta table in a folder; it is loaded once, and later looks load only its new commits."""

    def __init__(self, filesystem: Filesystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._table: DeltaTable | None = None
        self._options: Mapping[str, str] = {}
        self._version = -1
        self._beginning: bytes | None = None
        self._listed: tuple[object, Sequence[TableFile]] = (None, ())

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

    def files(self) -> Sequence[TableFile]:
        """Return the files of the table as of the last look; empty if there is no table."""
        if self._table is None:
            return ()
        state, files = self._listed
        if state != self.state:
            actions = self._table.get_add_actions()
            columns = (actions.column(each).to_pylist() for each in _COLUMNS)
            files = tuple(
                TableFile(self.uri(unquote(path)), rows or 0, size)
                for path, rows, size in zip(*columns, strict=True)
            )
            self._listed = (self.state, files)
        return files

    def version_at(self, milliseconds: int) -> int:
        """Return the version to which a RESTORE to an epoch time leads, -1 if that is unknown.

        It goes by the times of the log's files, which are later if the table was copied.
        """
        table = self._opened(dict(self._options))
        try:
            if table is not None:
                table.load_as_version(EPOCH + milliseconds * MILLISECOND)
        except DeltaError:  # The log no longer has that version.
            return -1
        return -1 if table is None else table.version()

    def names_removed_in(self, version: int) -> list[str]:
        """Return the names of the files that a version removed; empty if the log lacks it now."""
        content = self._filesystem.content(self._transaction_path(version)) or b""
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
        return [unquote(each["remove"]["path"]) for each in actions if "remove" in each]

    def has(self, intent: Intent) -> bool:
        """Return whether the newest version has the commit of an intent that was not given up."""
        table = self.look()
        return table is not None and has_commit(table, intent) and not is_given_up(table, intent)

    def uri(self, path: str) -> str:
        """Return the URI of a file; ``path`` is the log's name for it: a path or a URI."""
        return path if "://" in path else self._filesystem.uri(f"{self._folder}/{path}")

    def relative(self, uri: str) -> str:
        """Return the path of a file in the table's folder, as the log names it."""
        return self._filesystem.path_of(uri).removeprefix(f"{self._folder}/")

    def _is_continued(self) -> bool:
        """Return whether the log still has the transaction that was the newest at the last look.

        Someone may have moved the folder away and put another table in its place.
        """
        return self._beginning is not None and self._beginning == self._transaction()

    def _transaction(self) -> bytes | None:
        """Return the first bytes of the newest known transaction, None if it no longer exists."""
        try:
            with self._filesystem.open_input(self._transaction_path(self._version)) as stream:
                return stream.read(_BEGINNING)
        except FileNotFoundError:
            return None

    def _transaction_path(self, version: int) -> str:
        return f"{self._folder}/_delta_log/{version:020}.json"

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


def has_commit(table: DeltaTable, intent: Intent) -> bool:
    """Return whether a table has the application transaction of an intent or a later intent."""
    landed = table.transaction_version(intent.commit.source_name)
    return landed is not None and landed >= intent.sequence


def is_given_up(table: DeltaTable, intent: Intent) -> bool:
    """Return whether a table has the note that an intent was given up."""
    name = given_up_name(intent.commit.source_name)
    return table.transaction_version(name) == intent.sequence


def marks_deleted_rows(table: DeltaTable) -> bool:
    """Return whether the table may have files that mark rows of other files as deleted."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def commit_properties(
    commit: Commit, sequence: int | None = None, *, gives_up: bool = False
) -> CommitProperties:
    """Return the job's own properties for the log.

    The library must not retry by itself: another driver may have finished the same intent
    meanwhile, so DIL reads the table again first.
    """
    done = [] if sequence is None else [Transaction(commit.source_name, sequence)]
    if gives_up and sequence is not None:
        done.append(Transaction(given_up_name(commit.source_name), sequence))
    return CommitProperties(
        custom_metadata={"dil.run": commit.run_id, "dil.source": commit.source_name},
        max_commit_retries=0,
        app_transactions=done,
    )


def transaction_time() -> int:
    """Return the time of a transaction that is written now, in epoch milliseconds.

    A vacuum counts from this time how long the removed files are unneeded. The publish may have
    been decided days earlier, and readers used the files until now.
    """
    return time.time_ns() // 1_000_000
