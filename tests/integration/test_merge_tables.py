"""Merges into Delta and Iceberg tables, read back by the formats' own readers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.model.report import RunStatus
from dil.publishing import table_destination
from tests.integration.merge_jobs import Shop
from tests.killed import KilledError, killed
from tests.servers.day_rows import DayRows
from tests.stories import day
from tests.table_readers import FORMATS, rows_of

DAYS = {
    day(0): [{"id": number, "name": "old", "at": 1, "what": "i"} for number in range(4)],
    day(1): [
        {"id": 1, "name": "new", "at": 2, "what": "u"},
        {"id": 2, "name": "late", "at": 0, "what": "u"},
        {"id": 3, "name": "", "at": 2, "what": "d"},
        {"id": 9, "name": "added", "at": 1, "what": "i"},
    ],
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_merge_is_published_into_a_table_of_files(tmp_path: Path, kind: str) -> None:
    with DayRows(DAYS) as source:
        shop = Shop(
            tmp_path, source, ms__table__format=kind, ms__merge__op__field="what",
            writer__file__path__type="", ms__publish__changelog="true",
        )  # fmt: skip
        for number in (1, 2, 2):
            assert shop.run(number).status in {RunStatus.SUCCESS, RunStatus.NOTHING_DUE}

    require_merged(shop, kind)


def require_merged(shop: Shop, kind: str) -> None:
    """Check that the table has both days, and that their changes are recorded once each."""
    rows = sorted((row["id"], row["name"]) for row in rows_of(kind, shop.folder).to_pylist())
    assert rows == [(0, "old"), (1, "new"), (2, "old"), (9, "added")]
    changes = shop.changes()
    assert len(changes) == 8
    assert [text for text in changes if "'op': 1" in text] == [
        "{'id': 3, 'name': 'old', 'at': 1, 'what': 'i', 'op': 1}"
    ]
    folder = shop.folder / "lake" / "shop" / "orders_changelog"
    assert sum(pq.read_metadata(file).num_rows for file in folder.glob("part-*")) == 8


@pytest.mark.parametrize("is_abandoned", [False, True])
@pytest.mark.parametrize("cut", ["before the table", "before the block"])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_merge_that_is_cut_off_records_its_changes_with_its_rows(
    tmp_path: Path, kind: str, cut: str, is_abandoned: bool
) -> None:
    with DayRows(DAYS) as source:
        shop = Shop(
            tmp_path, source, ms__table__format=kind, ms__merge__op__field="what",
            writer__file__path__type="", ms__publish__changelog="true",
        )  # fmt: skip
        shop.run(1)
        with pytest.MonkeyPatch.context() as patch:
            if cut == "before the table":
                patch.setattr(table_destination, "put_in_place", killed)
            else:
                patch.setattr("dil.run.commit.append", killed)
            with pytest.raises(KilledError):
                shop.run(2)
        if is_abandoned:
            assert main(["runs", "abandon", str(tmp_path / "orders.conf"), "--yes"]) == 0
        assert shop.run(2).exit_code == 0

    require_merged(shop, kind)
    assert main(["state", "verify", str(tmp_path / "orders.conf"), "--full"]) == 0
