"""A timeseries table of a database: rows go to the tables of their timelabels.

No module here imports Arrow or a driver before a database is queried.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from dil.errors import CommitUnknownError
from dil.model.dataset import Commit, PublishedFile
from dil.model.job import PublishMode
from dil.publishing.warehouse.destination import WarehouseDestination

if TYPE_CHECKING:
    from dil.publishing.timeseries.access import TimeseriesAccess


class TimeseriesDestination(WarehouseDestination):
    """The tables ``_<table>_<timelabel>`` and the view ``<table>_view``; ``<table>`` is empty.

    A staged file is named ``<url>/<schema>.<table>?mode=timeseries#<file name>``. If a work unit is
    read again, its new rows replace its earlier rows of the same label; rows of other work units
    stay.
    """

    modes = frozenset({PublishMode.WINDOW_REPLACE})

    @cached_property
    def _access(self) -> TimeseriesAccess:
        from dil.publishing.timeseries.access import TimeseriesAccess

        return TimeseriesAccess(
            self._address, self._schema, self._table, self._spec, self._filesystem
        )

    def uri(self, path: str) -> str:
        """Return the URI of a file whose rows are loaded; only the file's name decides it."""
        return f"{self._base}?mode=timeseries#{quote(path.rpartition('/')[2])}"

    def expired(self, system_time: int) -> tuple[PublishedFile, ...]:
        """Return the live files of labels whose retention is over at ``system_time`` (ms UTC)."""
        warehouse = self._spec.warehouse
        if warehouse is None or warehouse.retention_ms is None:
            return ()
        return self._access.expired(system_time - warehouse.retention_ms)

    def spared(self, commit: Commit) -> Commit:
        """Return a commit without the files whose rows their labels already have."""
        if not (commit.moves and commit.removes):
            return commit
        return self._access.spared(commit)

    def _check_intent(self, commit: Commit) -> None:
        expected = f"{self._base}?mode=timeseries"
        for file in (*(move.target for move in commit.moves), *commit.removes):
            decided = file.uri.partition("#")[0]
            if decided != expected:
                raise CommitUnknownError(
                    f"run {commit.run_id} began to publish to {decided}, but the job now publishes"
                    f" to {expected}",
                    "Set ms.warehouse.* and the table's name back and run the job again, which"
                    " finishes the publish. Then change them.",
                )
