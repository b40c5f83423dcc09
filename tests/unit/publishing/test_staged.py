"""Complete attempts in staging, and what does not count as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from dil.model.task import Counters
from dil.publishing.staged import (
    StagedPlan,
    StagedResult,
    read_plan,
    read_results,
    write_plan,
    write_result,
)
from dil.storage import LocalFilesystem
from tests.unit.publishing.published import SyncedFolders, report, result, staged_file, unit

files = LocalFilesystem()


def stage(run: Path, number: int, attempt: str = "1-aa", **changes: object) -> StagedResult:
    """Complete an attempt; return its result."""
    folder = run / unit(number).hash / attempt
    made = report(unit(number), staged_file(folder, "part-0.parquet"))
    complete = replace(result(unit(number), made), **changes)  # type: ignore[arg-type]
    write_result(files, str(folder), complete)
    return complete


def found(run: Path) -> list[StagedResult]:
    return list(read_results(files, str(run)))


def test_a_run_that_staged_nothing_has_no_results(tmp_path: Path) -> None:
    assert found(tmp_path / "none") == []


def test_a_result_comes_back_as_it_was_written(tmp_path: Path) -> None:
    exact = structs.replace(unit(), unit_json='{"price":0.10,"name":"ü/ b"}', last_high=7, cutoff=8)
    made = replace(
        report(exact), counters=Counters(seconds=0.25, rows_read=3), notes=("one", "two")
    )
    written = replace(result(exact, made), work_unit=exact, full_extract=True)
    write_result(files, str(tmp_path / "r1" / exact.hash / "1-aa"), written)

    assert found(tmp_path / "r1") == [written]


def test_a_result_is_durable_with_folders_that_another_task_has_just_made(tmp_path: Path) -> None:
    staging = tmp_path / "_staging"
    attempt = staging / "r1" / unit().hash / "1-aa"
    made = report(unit(), staged_file(attempt, "part-0.parquet"))
    listening = SyncedFolders()

    write_result(listening, str(attempt), result(unit(), made))

    assert listening.synced >= {str(attempt), *map(str, list(attempt.parents)[:3])}


def test_every_work_unit_has_one_result(tmp_path: Path) -> None:
    written = [stage(tmp_path, number) for number in range(3)]

    assert {one.work_unit.signature for one in found(tmp_path)} == {
        one.work_unit.signature for one in written
    }


def test_of_two_complete_attempts_one_counts(tmp_path: Path) -> None:
    stage(tmp_path, 0, "1-aa")
    second = stage(tmp_path, 0, "2-bb")

    assert found(tmp_path) == [second]


def test_the_tenth_attempt_is_later_than_the_ninth(tmp_path: Path) -> None:
    for attempt in ("10-aa", "9-bb", "1-cc"):
        stage(tmp_path, 0, attempt)

    (last,) = found(tmp_path)

    assert "/10-aa/" in last.report.files[0].path


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"torn")])
def test_a_result_whose_files_are_not_whole_does_not_count(tmp_path: Path, damage) -> None:
    stage(tmp_path, 0)

    damage(tmp_path / unit(0).hash / "1-aa" / "part-0.parquet")

    assert found(tmp_path) == []


def test_a_later_attempt_without_a_result_does_not_hide_a_complete_one(tmp_path: Path) -> None:
    first = stage(tmp_path, 0, "1-aa")
    staged_file(tmp_path / unit(0).hash / "2-bb", "part-0.parquet")

    assert found(tmp_path) == [first]


def test_an_attempt_without_a_result_does_not_count(tmp_path: Path) -> None:
    staged_file(tmp_path / unit(0).hash / "1-aa", "part-0.parquet")

    assert found(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format":1}', b"\xff\xfe"])
def test_a_result_that_cannot_be_read_does_not_count(tmp_path: Path, content: bytes) -> None:
    stage(tmp_path, 0)
    (tmp_path / unit(0).hash / "1-aa" / "result.json").write_bytes(content)

    assert found(tmp_path) == []


def test_a_result_of_another_format_does_not_count(tmp_path: Path) -> None:
    stage(tmp_path, 0, format=2)

    assert found(tmp_path) == []


# The plan


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    plan = StagedPlan((unit(0), structs.replace(unit(1), last_high=7)), left_low=9)
    write_plan(files, str(tmp_path / "r1"), plan)

    assert read_plan(files, str(tmp_path / "r1")) == plan


def test_a_run_without_a_readable_plan_set_out_to_do_nothing(tmp_path: Path) -> None:
    write_plan(files, str(tmp_path / "r1"), StagedPlan((unit(0),)))
    (tmp_path / "r1" / "plan.json").write_bytes(b"{")

    assert read_plan(files, str(tmp_path / "r1")) == StagedPlan()
    assert read_plan(files, str(tmp_path / "r2")) == StagedPlan()


def test_a_plan_is_no_result(tmp_path: Path) -> None:
    write_plan(files, str(tmp_path), StagedPlan((unit(0),)))

    assert found(tmp_path) == []
