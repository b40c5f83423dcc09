"""A table of a database: one transaction loads rows and records the commit.

No module here imports Arrow or a driver before a database is queried.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from dil.errors import CommitUnknownError, ConfigError
from dil.model.dataset import Commit, Intent, Owner, PublishedFile
from dil.model.job import PublishingSpec, PublishMode
from dil.spi.destination import Destination, DestinationContext
from dil.storage import Filesystem
from dil.text.warehouse_url import read_warehouse_url

# Under these modes rows are loaded without ``_dil_signature``.
_UNSIGNED = {PublishMode.APPEND.value, PublishMode.REPLACE.value, PublishMode.MERGE.value}

if TYPE_CHECKING:
    from dil.publishing.warehouse.access import Access
    from dil.publishing.warehouse.records import LoadsFound


class WarehouseDestination(Destination):
    """The table ``extract.table.name``, and the records ``dil_commit`` and ``dil_part`` beside it.

    A staged file is named ``<url>/<schema>.<table>?mode=<publish mode>#<file name>``. The mode is
    part of the name, because any later run finishes an intent as it was decided.
    """

    modes = frozenset(PublishMode)

    merges = True

    def __init__(self, spec: PublishingSpec, filesystem: Filesystem) -> None:
        warehouse = spec.warehouse
        if warehouse is None:
            raise TypeError("the job publishes to no warehouse")
        super().__init__(DestinationContext(spec, filesystem))
        self._spec = spec
        self._filesystem = filesystem
        self._address = read_warehouse_url(warehouse.url.reveal())
        self._schema = warehouse.schema or self._address.engine.default_schema
        self._table = warehouse.table
        self._dataset = f"{self._schema}.{self._table}".lstrip(".")
        self._base = f"{self._address}/{quote(self._dataset)}"

    @cached_property
    def _access(self) -> Access:
        from dil.publishing.warehouse.access import Access

        return Access(self._address, self._schema, self._table, self._spec, self._filesystem)

    def connected(self) -> AbstractContextManager[None]:
        """Let calls share one connection; a call that loads rows closes it."""
        return self._access.connected()

    def check(self) -> None:
        """Check that the database answers, and that the table fits the job.

        Raises:
            ConfigError: a right, or the key by which rows are merged, is missing.
            WriteError: the database cannot be reached.
        """
        self._access.check()

    def claim(self, owner: Owner) -> None:
        """Enter a job as an owner of the table, wherever its files are staged.

        Raises:
            ConfigError: the table belongs to another job.
        """
        self._access.claim(owner)

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the files whose rows are in the table; empty if rows are merged."""
        if self._spec.mode is PublishMode.MERGE:
            return ()
        found = self._access.live()
        if found or self._spec.mode is not PublishMode.REPLACE or not self._access.has_rows():
            return found
        # All rows are from other jobs. This file stands for these rows, so that a replace removes
        # them even if the run itself has no rows.
        return (PublishedFile(f"{self._base}#rows-of-others", "", 0, 0, "", ""),)

    def not_loaded(self, uris: Iterable[str]) -> list[str]:
        """Return the files of this table, among some URIs, whose rows the table lacks.

        It lacks the rows of loads that are not recorded, and all rows if it was dropped.
        """
        own = {uri: _name(uri) for uri in uris if uri.startswith(f"{self._base}?")}
        lost = self._access.lacks(own.values())
        return [uri for uri, name in own.items() if name in lost]

    def loads(self, uris: Iterable[str]) -> LoadsFound:
        """Return what the database has of the loads of some files, by the names in their URIs."""
        return self._access.loads(set(map(_name, uris)))

    def next_sequence(self) -> int:
        """Return the number of the table's next commit."""
        return self._access.next_sequence()

    def landed(self, source: str) -> int | None:
        """Return the number of the last commit; None if other jobs load into the table."""
        return self._access.landed(source)

    def has_others(self, source: str) -> bool:
        """Return whether other jobs load into the table."""
        return self.landed(source) is None

    def uri(self, path: str) -> str:
        """Return the URI of a file whose rows are loaded; only the file's name decides it."""
        return f"{self._base}?mode={self._spec.mode.value}#{quote(path.rpartition('/')[2])}"

    def late_files(self) -> tuple[str, ...]:
        """Return the names of the files whose rows are in the table of late rows."""
        return self._access.late_files()

    def missing(self) -> PublishedFile:
        """Return the file that represents all rows whose keys a commit lacks."""
        from dil.publishing.warehouse.missing import missing_rows

        return missing_rows(f"{self._base}?mode={self._spec.mode.value}")

    def has_landed(self, intent: Intent) -> bool:
        """Return whether the run is recorded; late rows alone are recorded in their own table."""
        commit = intent.commit
        if commit.touches_late_rows and not (commit.moves or commit.removes):
            return self._access.has_late(commit.run_id)
        return self._access.has(commit.run_id)

    def require_fit(self, commit: Commit) -> None:
        """Check that a commit can be carried out, before it is decided.

        Raises:
            ConfigError: rows to be replaced cannot be distinguished from other rows.
            ConversionError: a column or a value does not fit the table.
            SourceContractError: more rows are missing at the source than may be deleted.
            WriteError: the table cannot be changed to fit the rows.
        """
        if commit.moves or commit.removes or commit.touches_late_rows:
            if self._spec.mode is PublishMode.WINDOW_REPLACE:
                self._refuse_unsigned(commit)
            self._access.require_fit(commit)

    def carry_out(self, intent: Intent) -> None:
        """Load the rows, unless the database has recorded that they are loaded.

        Raises:
            CommitUnknownError: the intent is for another table or another publish mode, or the
                answer to the commit was lost.
            WriteError: the database did not accept the rows; the next run tries again.
        """
        if intent.commit.moves or intent.commit.removes:
            self._check_intent(intent.commit)
            self.merged = self._access.carry_out(intent)
        elif intent.commit.touches_late_rows:
            self._access.load_late(intent)

    def _refuse_unsigned(self, commit: Commit) -> None:
        """Raise if rows to replace were loaded without their work units."""
        modes = (file.uri.partition("#")[0].rpartition("?mode=")[2] for file in commit.removes)
        unsigned = sorted({mode for mode in modes if mode in _UNSIGNED})
        if unsigned:
            mode = unsigned[0]
            forget = f"DELETE FROM dil_part WHERE dataset = '{self._dataset}'"
            raise ConfigError.single(
                "ms.publish.mode",
                f"is {self._spec.mode}, and rows of {self._table} that are to be replaced were"
                f" loaded under {mode}, without the work unit of each row",
                f"Set the publish mode back to {mode}, or load into another table. To keep"
                f" {self._spec.mode} and this table, empty the table, run {forget}, then dil state"
                " relist JOB.conf, and read everything again: dil state forget JOB.conf --all",
            )

    def _check_intent(self, commit: Commit) -> None:
        """Raise if an intent was decided under another configuration."""
        mode = self._spec.mode
        expected = f"{self._base}?mode={mode.value}"
        for move in commit.moves:
            decided = move.target.uri.partition("#")[0]
            if decided != expected:
                raise _unlike(commit.run_id, decided, expected)
        is_known = any(file.uri.startswith(f"{expected}#") for file in commit.removes)
        if not commit.moves and mode in {PublishMode.APPEND, PublishMode.MERGE} and not is_known:
            raise _unlike(commit.run_id, "in place of earlier rows", expected)


def _name(uri: str) -> str:
    return uri.rpartition("#")[2]


def _unlike(run_id: str, decided: str, configured: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"run {run_id} began to publish to {decided}, but the job now publishes to {configured}",
        "Set ms.warehouse.url, the table's name and ms.publish.mode back and run the job again,"
        " which finishes the publish. Then change them.",
    )
