"""The common part of the columns of Delta and Iceberg tables."""

from __future__ import annotations

from dil.errors import WriteError

UTC_ZONES = ("UTC", "+00:00", "Etc/UTC", "Z")


def unfit(column: str, kind: object, why: str) -> WriteError:
    """Return the error for a column that cannot be published, before anything is published."""
    return WriteError(
        f'column "{column}" is {kind}, {why}',
        "Nothing was published. Give the column another type with ms.output.schema or at the"
        " source, or publish to another extract.table.name.",
    )
