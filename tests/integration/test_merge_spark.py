"""Merges whose files are rewritten by tasks of a real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.dil_processes import printed_by
from tests.integration.merge_jobs import Shop
from tests.servers.day_rows import DayRows
from tests.stories import day

pytestmark = pytest.mark.spark


def on_spark(*arguments: str) -> list:
    return printed_by("tests.integration.merges_on_spark", *arguments)


def test_tasks_write_the_same_files_as_this_process(tmp_path: Path) -> None:
    pairs = on_spark("lakes", str(tmp_path))

    assert len(pairs) == 3
    for by_tasks, here in pairs:
        assert by_tasks == here
        assert len(here) > 3


def test_a_run_on_spark_merges_in_the_session_of_its_tasks(tmp_path: Path) -> None:
    old = [{"id": number, "name": "old", "at": 1, "op": "i"} for number in range(6)]
    new = [
        {"id": 1, "name": "new", "at": 2, "op": "u"},
        {"id": 4, "name": "", "at": 2, "op": "d"},
        {"id": 7.5, "name": "added", "at": 1, "op": "i"},
    ]
    with DayRows({day(0): old[:3], day(1): old[3:], day(2): new[:1], day(3): new[1:]}) as source:
        shop = Shop(tmp_path, source, ms__merge__op__field="op")
        reports = on_spark("jobs", str(shop.conf()), str(day(2)), str(day(4)))

    assert [report["status"] for report in reports] == ["success", "success"]
    assert shop.brief() == {0: "old", 1: "new", 2: "old", 3: "old", 5: "old", 7.5: "added"}


def test_what_a_task_refuses_fails_the_run_with_its_code(tmp_path: Path) -> None:
    rows = [{"id": 1, "name": "x", "at": 1}]
    with DayRows({day(0): rows, day(1): [*rows, {"id": None, "name": "y", "at": 1}]}) as source:
        (report,) = on_spark("jobs", str(Shop(tmp_path, source).conf()), str(day(2)))

    assert [failure["code"] for failure in report["failures"]] == ["DIL-CONVERT"]
    assert f"watermark.system.{day(1)}" in report["failures"][0]["error"]
    assert 'column "id" is null in row 2' in report["failures"][0]["error"]
