"""A merge deletes rows that are missing at the source, but none that a run did not look for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from dil.model.report import RunStatus
from tests.integration.merge_jobs import SNAPSHOT, Shop
from tests.servers.day_rows import DayRows
from tests.stories import day

UNTIL = [{"name": "since", "type": "watermark", "value": "high"}]
BY_DAY = {
    **{name.replace(".", "__"): value for name, value in SNAPSHOT.items()},
    "ms__work__unit__partition": "daily",
    "ms__parameters": json.dumps(UNTIL),
}


def test_a_run_that_leaves_work_units_to_the_next_run_deletes_none_of_their_rows(
    tmp_path: Path,
) -> None:
    rows = {day(number): [{"id": number, "name": "a", "at": 1}] for number in (1, 2)}
    with DayRows(rows) as source:
        shop = Shop(tmp_path / "job", source)
        shop.run(2, **BY_DAY)
        shutil.rmtree(shop.folder / "state")

        report = shop.run(2, **BY_DAY, ms__work__unit__parallelism__max="1")

        assert (report.status, report.left) == (RunStatus.SUCCESS, 1)
        assert [row["id"] for row in shop.rows()] == [1, 2]
