"""Publishes to an Iceberg table whose files are in the dataset's folder."""

from __future__ import annotations

from dil.publishing.table_destination import TableDestination, TableLog


class IcebergDestination(TableDestination):
    """The dataset's files and the table of a catalog that lists them."""

    def _open(self) -> TableLog:
        from dil.publishing.iceberg_log import IcebergLog

        return IcebergLog(self._spec, self._filesystem)
