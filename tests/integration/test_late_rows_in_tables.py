"""What becomes of late rows where rows go to a table of Delta or Iceberg, or of a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.model.report import RunReport, RunStatus
from tests.event_feed import Feed, beside, minutes
from tests.integration.local_jobs import NOW
from tests.table_readers import FORMATS, rows_of
from tests.warehouses import Warehouse, new_warehouse

MINUTE = 60_000
LATENESS = ("_late", "_lateness_ms")


class TableFeed(Feed):
    """A folder whose rows go to a table, and a reader of that table."""

    def __init__(self, folder: Path, kind: str, warehouse: Warehouse | None) -> None:
        given = {"ms.warehouse.url": warehouse.url} if warehouse else {"ms.table.format": kind}
        super().__init__(folder, **given)
        self.kind = kind
        self.warehouse = warehouse

    def rows(self) -> list[dict[str, object]]:
        """Return the rows of the table, as its own library reads them."""
        if self.warehouse is None:
            found = rows_of(self.kind, self.folder, "lake.feed").to_pylist()
        else:
            prefix, engine = self.warehouse.prefix, self.warehouse.engine
            names = list(self.warehouse.columns("feed"))
            columns = ", ".join(f'"{name}"' for name in names)
            read = self.warehouse.rows(f"SELECT {columns} FROM {prefix}feed")
            found = [dict(zip(names, row, strict=True)) for row in read]
            for row in found if engine == "sqlite" else []:
                if row.get("_late") is not None:
                    row["_late"] = bool(row["_late"])
        return sorted(found, key=lambda row: row["id"])

    def ids(self) -> list[object]:
        return [row["id"] for row in self.rows()]

    def run_twice(self, action: str) -> RunReport:
        """Publish a row at -10, then rows of which those at -12 and -13 are late."""
        self.properties["ms.late.action"] = action
        self.put(-10)
        assert self.run().status is RunStatus.SUCCESS
        self.put(-12, -1, -13, None)
        return self.run(at=1)


@pytest.fixture(params=[*FORMATS, "sqlite", "postgresql"])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableFeed]:
    if request.param in FORMATS:
        yield TableFeed(tmp_path / "job", request.param, None)
        return
    with new_warehouse(request.param, tmp_path, request) as warehouse:
        # The namespace of the job is its schema, where there are schemas.
        changed = Warehouse(warehouse.engine, warehouse.url, "lake", warehouse.path)
        yield TableFeed(tmp_path / "job", request.param, changed if warehouse.schema else warehouse)


def test_flagged_rows_have_their_lateness_in_the_table(feed: TableFeed) -> None:
    report = feed.run_twice("flag")
    assert report.status is RunStatus.SUCCESS
    assert {row["id"]: tuple(row[name] for name in LATENESS) for row in feed.rows()} == {
        100: (False, 0),
        200: (True, MINUTE),
        201: (False, 0),
        202: (True, 2 * MINUTE),
        203: (False, None),
    }
    assert minutes(feed.checkpoint()["watermark"]) == -2


def test_dropped_rows_are_in_no_table_and_counted(feed: TableFeed) -> None:
    report = feed.run_twice("drop")
    assert feed.ids() == [100, 201, 203]
    assert (report.rows, report.rows_dropped) == (2, 2)
    assert report.events is not None
    assert report.events.counts.dropped == 2
    assert "_late" not in feed.rows()[0]


def test_late_rows_that_fail_leave_the_table_and_the_watermark_as_they_are(
    feed: TableFeed,
) -> None:
    report = feed.run_twice("fail")
    assert report.status is RunStatus.FAILED
    assert "2 rows came late" in report.failures[0].error
    assert feed.ids() == [100]
    assert minutes(feed.checkpoint()["watermark"]) == -11
    assert feed.run(at=2, **{"ms.late.action": "drop"}).status is RunStatus.SUCCESS
    assert feed.ids() == [100, 201, 203]


def test_rows_of_the_side_table_are_files_beside_it(feed: TableFeed) -> None:
    report = feed.run_twice("side_table")
    assert report.status is RunStatus.SUCCESS
    assert feed.ids() == [100, 201, 203]
    assert [(row["id"], row["at"]) for row in beside(feed)] == [
        (200, NOW - 12 * MINUTE),
        (202, NOW - 13 * MINUTE),
    ]
    assert report.events is not None
    assert report.events.counts.beside == 2
    assert feed.run(at=2).status is RunStatus.NOTHING_DUE
