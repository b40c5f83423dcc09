"""Merges into Delta and Iceberg tables, read back by the formats' own readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.model.report import RunStatus
from tests.integration.merge_jobs import Shop
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

    rows = sorted((row["id"], row["name"]) for row in rows_of(kind, tmp_path).to_pylist())
    assert rows == [(0, "old"), (1, "new"), (2, "old"), (9, "added")]
    changes = shop.changes()
    assert len(changes) == 8
    assert [text for text in changes if "'op': 1" in text] == [
        "{'id': 3, 'name': 'old', 'at': 1, 'what': 'i', 'op': 1}"
    ]
