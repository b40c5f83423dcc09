"""Publishes to a Delta table in the dataset's folder."""

from __future__ import annotations

from dil.publishing.table_destination import TableDestination, TableLog


class DeltaDestination(TableDestination):
    """The dataset's files and their ``_delta_log``."""

    def _open(self) -> TableLog:
        from dil.publishing.delta_log import DeltaLog

        return DeltaLog(self._spec, self._filesystem)
