"""The limits of a query's micro-batch, which Spark has since 4.2."""

from __future__ import annotations

from typing import Any

try:  # since Spark 4.2
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # pragma: no cover - tests run on a newer one
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in for Spark's class in earlier releases."""
else:
    HAS_LIMITS = True

__all__ = ["HAS_LIMITS", "SupportsTriggerAvailableNow", "default_limit", "limits_of"]


def default_limit(rows: int | None, files: int | None) -> Any:  # a ReadLimit
    """Return the limit that options ask for."""
    if rows is not None:
        return ReadMaxRows(rows)
    return ReadAllAvailable() if files is None else ReadMaxFiles(files)


def limits_of(limit: object) -> tuple[int | None, int | None]:
    """Return the rows and the files that a limit of Spark allows; None for no limit.

    Limits of other kinds come from triggers, and ask for all rows.
    """
    if not HAS_LIMITS or not isinstance(limit, ReadLimit):
        return None, None
    rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
    files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
    return rows, files
