"""A start marker: what a later execution of a work unit finds, and when it does not send again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import SourceError, UnknownOutcomeError
from dil.model.dataset import RunRecord
from dil.model.job import Job
from dil.model.task import Failure, RunContext
from dil.publishing.layout import refused_dir, sending_dir
from dil.publishing.results import FinishedUnit, PublishTarget
from dil.publishing.staged import write_result
from dil.publishing.start_marker import MarkState, StartMarker, forget, forget_committed
from dil.storage import LocalFilesystem
from tests.unit.publishing.published import (
    SyncedFolders,
    decided,
    failed,
    job,
    report,
    result,
    staged_file,
    unit,
)

files = LocalFilesystem()
TARGET = PublishTarget("r1", "/lake/shop/orders", (), (), system_time=5, horizon=7)


@pytest.fixture
def orders(tmp_path: Path) -> Job:
    return job(tmp_path)


def marker(
    orders: Job,
    folder: Path,
    run_id: str = "r1",
    number: int = 0,
    files: LocalFilesystem = files,
) -> StartMarker:
    staging = folder / "lake" / "_staging" / "orders" / run_id
    run = RunContext(orders, run_id, 0, full_extract=True, staging_dir=str(staging))
    return StartMarker(files, run, unit(number))


def attempt(folder: Path, run_id: str = "r1") -> str:
    return str(folder / "lake" / "_staging" / "orders" / run_id / unit().hash / "1-a")


def stage(folder: Path) -> None:
    made = report(unit(), staged_file(Path(folder), "part-0.parquet"))
    write_result(files, str(folder), result(unit(), made))


def test_without_a_marker_rows_may_be_sent(orders: Job, tmp_path: Path) -> None:
    marker(orders, tmp_path).refuse_repetition()


def test_an_attempt_that_never_came_to_an_end_stops_every_later_run(
    orders: Job, tmp_path: Path
) -> None:
    marker(orders, tmp_path).begin(1, attempt(tmp_path), 1_700_000_000_000)

    for run_id in ("r1", "r2"):
        with pytest.raises(UnknownOutcomeError, match="may have been sent") as caught:
            marker(orders, tmp_path, run_id).refuse_repetition()
        assert "run r1, attempt 1, since 2023-11-14T22:13:20+00:00" in caught.value.message
        assert unit().signature in caught.value.message
        assert "ms.egress.send.again=true" in caught.value.fix


def test_a_marker_is_durable_with_folders_that_another_task_has_just_made(
    orders: Job, tmp_path: Path
) -> None:
    folder = Path(sending_dir(orders.publishing, "orders"))
    folder.mkdir(parents=True)
    listening = SyncedFolders()

    marker(orders, tmp_path, files=listening).begin(1, attempt(tmp_path), 0)

    assert listening.synced >= {str(folder), *map(str, list(folder.parents)[:2])}


def test_a_marker_is_of_one_work_unit(orders: Job, tmp_path: Path) -> None:
    marker(orders, tmp_path).begin(1, attempt(tmp_path), 0)
    marker(orders, tmp_path, "r2", number=1).refuse_repetition()


def test_a_clean_failure_leaves_no_marker(orders: Job, tmp_path: Path) -> None:
    first = marker(orders, tmp_path)
    first.begin(1, attempt(tmp_path), 0)
    first.fail(Failure("DIL-SRC", "refused"), None)

    marker(orders, tmp_path, "r2").refuse_repetition()


def test_a_failure_of_unknown_outcome_stops_later_runs_and_says_why(
    orders: Job, tmp_path: Path
) -> None:
    first = marker(orders, tmp_path)
    first.begin(1, attempt(tmp_path), 0)
    first.fail(Failure(UnknownOutcomeError.code, "POST /x: timed out"), MarkState.UNKNOWN)

    with pytest.raises(UnknownOutcomeError, match="POST /x: timed out"):
        marker(orders, tmp_path, "r2").refuse_repetition()


def test_a_failure_before_anything_was_sent_writes_nothing(orders: Job, tmp_path: Path) -> None:
    found = Failure(UnknownOutcomeError.code, "found one")
    marker(orders, tmp_path).fail(found, MarkState.UNKNOWN)
    assert not (tmp_path / "lake" / "_staging" / "orders" / "_sending").exists()


def test_rows_whose_answers_wait_for_publishing_are_not_sent_by_another_run(
    orders: Job, tmp_path: Path
) -> None:
    folder = attempt(tmp_path)
    first = marker(orders, tmp_path)
    first.begin(1, folder, 0)
    stage(Path(folder))
    first.complete()

    with pytest.raises(UnknownOutcomeError, match="staged"):
        marker(orders, tmp_path, "r2").refuse_repetition()
    files.delete_tree(folder)  # a publish would have taken the marker away
    with pytest.raises(UnknownOutcomeError, match="were not published"):
        marker(orders, tmp_path, "r2").refuse_repetition()


@pytest.mark.parametrize(("committed", "is_forgotten"), [(True, True), (False, False)])
def test_a_run_that_was_killed_right_after_its_commit_leaves_no_doubt(
    orders: Job, tmp_path: Path, committed: bool, is_forgotten: bool
) -> None:
    first = marker(orders, tmp_path)
    first.begin(1, attempt(tmp_path), 0)
    first.complete()
    run = RunRecord("r1", "orders", 0, 0, "full", "d", "x", "running", committed=committed)

    forget_committed(files, sending_dir(orders.publishing, "orders"), [run])

    (folder,) = (tmp_path / "lake" / "_staging" / "orders").glob("_sending")
    assert (list(folder.iterdir()) == []) is is_forgotten


def test_a_work_unit_whose_sending_did_not_end_stays_in_doubt_though_its_run_committed_others(
    orders: Job, tmp_path: Path
) -> None:
    marker(orders, tmp_path).begin(1, attempt(tmp_path), 0)
    run = RunRecord("r1", "orders", 0, 0, "partial", "d", "x", "running", committed=True)

    forget_committed(files, sending_dir(orders.publishing, "orders"), [run])

    with pytest.raises(UnknownOutcomeError, match="did not finish"):
        marker(orders, tmp_path, "r2").refuse_repetition()


def test_what_still_lies_in_staging_was_not_committed_by_its_run(
    orders: Job, tmp_path: Path
) -> None:
    first = marker(orders, tmp_path)
    first.begin(1, attempt(tmp_path), 0)
    stage(Path(attempt(tmp_path)))
    first.complete()
    run = RunRecord("r1", "orders", 0, 0, "full", "d", "x", "running", committed=True)

    forget_committed(files, sending_dir(orders.publishing, "orders"), [run])

    with pytest.raises(UnknownOutcomeError, match="staged"):
        marker(orders, tmp_path, "r2").refuse_repetition()


def test_kept_progress_stops_a_run_that_does_not_go_on_from_it(orders: Job, tmp_path: Path) -> None:
    first = marker(orders, tmp_path)
    first.begin(1, attempt(tmp_path), 0)
    first.fail(Failure("DIL-SRC", "HTTP status 422"), MarkState.KEPT)

    marker(orders, tmp_path).refuse_repetition()  # a later attempt of the same run
    with pytest.raises(UnknownOutcomeError, match="cannot continue from there"):
        marker(orders, tmp_path, "r2").refuse_repetition()


def test_what_is_published_leaves_no_marker(orders: Job, tmp_path: Path) -> None:
    for number in (0, 1):
        marker(orders, tmp_path, number=number).begin(1, attempt(tmp_path), 0)
    reports = [report(unit(0)), failed(unit(1))]
    finished = [FinishedUnit(unit(number), made) for number, made in enumerate(reports)]
    folder = sending_dir(orders.publishing, "orders")

    forget(files, folder, decided(orders, TARGET, finished, files))

    marker(orders, tmp_path, "r2").refuse_repetition()
    with pytest.raises(UnknownOutcomeError):
        marker(orders, tmp_path, "r2", number=1).refuse_repetition()


def test_a_lost_execution_that_completed_is_taken_over_by_the_next_one(
    orders: Job, tmp_path: Path
) -> None:
    assert marker(orders, tmp_path).earlier_result() is None
    stage(Path(attempt(tmp_path)))

    found = marker(orders, tmp_path).earlier_result()
    assert found is not None
    assert found.files[0].path.endswith("part-0.parquet")
    assert marker(orders, tmp_path, "r2").earlier_result() is None


def test_a_marker_that_cannot_be_read_stops_the_work_unit(orders: Job, tmp_path: Path) -> None:
    marker(orders, tmp_path).begin(1, attempt(tmp_path), 0)
    (path,) = (tmp_path / "lake" / "_staging" / "orders" / "_sending").iterdir()
    path.write_text("{")
    with pytest.raises(SourceError, match="may have been sent"):
        marker(orders, tmp_path, "r2").refuse_repetition()


def test_refused_rows_are_published_beside_those_that_broke_the_contract(tmp_path: Path) -> None:
    orders, one = job(tmp_path), unit()
    made = replace(
        report(one, staged_file(tmp_path, "part-0.parquet")),
        refused=(staged_file(tmp_path, "failed-0.json"),),
        quarantined=(staged_file(tmp_path, "quarantine-0.json"),),
    )
    commit = decided(orders, TARGET, [FinishedUnit(one, made)], files)

    uris = [move.target.uri for move in commit.quarantine]
    assert len(uris) == 2
    assert uris[1] == files.uri(f"{refused_dir(orders.publishing)}/part-r1-{one.hash}-0.json")
