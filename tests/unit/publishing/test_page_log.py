"""Logs of unfinished attempts: which are found, and what a sweep leaves of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dil.publishing.page_log import (
    LoggedCheckpoint,
    LoggedFile,
    LogOwner,
    best_log,
    drop_logs,
    keep_logs,
    page_logs,
    read_log,
    write_checkpoint,
)
from dil.publishing.staged import write_result
from dil.storage import LocalFilesystem
from tests.unit.publishing.published import SyncedFolders, report, result, staged_file, unit

FILES = LocalFilesystem()


def owner(number: int = 0, **changes: object) -> LogOwner:
    made = unit(number)
    owned = LogOwner(made.signature, made.low, made.high, "d", full_extract=False)
    return replace(owned, **changes)  # type: ignore[arg-type]


def attempt(
    run: Path,
    number: int = 0,
    name: str = "1-aa",
    pages: int = 2,
    files: LocalFilesystem = FILES,
) -> str:
    """Leave a log of an attempt with one file for each page; return its folder."""
    folder = run / unit(number).hash / name
    for page in range(pages):
        file = staged_file(folder, f"part-{page}.parquet")
        logged = LoggedFile(f"part-{page}.parquet", file.rows, file.bytes, file.sha256, "schema")
        checkpoint = LoggedCheckpoint(
            owner(number), f"{page + 1}", (logged,), page + 1, "schema", "seen"
        )
        write_checkpoint(files, str(folder), page, checkpoint)
    return str(folder)


def test_a_log_is_durable_with_folders_that_another_task_has_just_made(tmp_path: Path) -> None:
    listening = SyncedFolders()

    folder = Path(attempt(tmp_path / "_staging" / "r1", files=listening))

    assert listening.synced >= {str(folder), *map(str, list(folder.parents)[:3])}


def test_a_log_is_found_with_the_files_of_all_its_checkpoints(tmp_path: Path) -> None:
    folder = attempt(tmp_path, pages=3)

    log = read_log(FILES, folder)

    assert log is not None
    assert (log.folder, log.last.pages, log.last.position) == (folder, 3, "3")
    assert [file.name for file in log.files] == [f"part-{page}.parquet" for page in range(3)]


@pytest.mark.parametrize(
    ("damage", "pages"),
    [
        (("page-00000001.json", None), 1),
        (("page-00000001.json", b'{"owner"'), 1),
        (("part-2.parquet", b"short"), 2),
        (("page-00000000.json", None), 0),
        (("part-0.parquet", None), 0),
    ],
)
def test_a_log_ends_before_the_first_damage(tmp_path: Path, damage, pages: int) -> None:
    folder = attempt(tmp_path, pages=3)
    name, data = damage
    if data is None:
        (Path(folder) / name).unlink()
    else:
        (Path(folder) / name).write_bytes(data)

    log = read_log(FILES, folder)

    assert (log.last.pages if log else 0) == pages


def test_a_complete_attempt_has_no_log_to_go_on_from(tmp_path: Path) -> None:
    folder = attempt(tmp_path)
    write_result(FILES, folder, result(unit(), report(unit())))

    assert read_log(FILES, folder) is None
    assert page_logs(FILES, str(tmp_path)) == {}


def test_of_several_attempts_the_one_that_came_farthest_counts(tmp_path: Path) -> None:
    attempt(tmp_path, name="1-aa", pages=2)
    farthest = attempt(tmp_path, name="2-bb", pages=4)
    attempt(tmp_path, name="3-cc", pages=1)
    other = attempt(tmp_path, 1)

    logs = page_logs(FILES, str(tmp_path))
    assert {signature: log.folder for signature, log in logs.items()} == {
        unit(0).signature: farthest,
        unit(1).signature: other,
    }
    found = best_log(FILES, str(tmp_path / unit(0).hash), owner())
    assert found is not None
    assert found.folder == farthest


@pytest.mark.parametrize(
    "change",
    [{"low": 1}, {"high": 2}, {"digest": "other"}, {"full_extract": True}, {"last_high": 3}],
)
def test_a_log_of_another_owner_is_not_fit(tmp_path: Path, change: dict[str, object]) -> None:
    attempt(tmp_path)

    assert best_log(FILES, str(tmp_path / unit().hash), owner(**change)) is None


def test_a_run_without_staging_has_no_logs(tmp_path: Path) -> None:
    assert page_logs(FILES, str(tmp_path / "none")) == {}
    assert not keep_logs(FILES, str(tmp_path / "none"), ["s"])


def test_a_sweep_leaves_only_the_logs_of_what_is_owed(tmp_path: Path) -> None:
    owed = attempt(tmp_path, 0)
    attempt(tmp_path, 1)
    (tmp_path / unit(2).hash / "1-aa").mkdir(parents=True)

    assert keep_logs(FILES, str(tmp_path), [unit(0).signature])

    assert {each.folder for each in page_logs(FILES, str(tmp_path)).values()} == {owed}
    assert list((tmp_path / unit(2).hash).iterdir()) == []


def test_a_sweep_with_nothing_owed_is_left_to_the_ordinary_one(tmp_path: Path) -> None:
    folder = attempt(tmp_path)

    assert not keep_logs(FILES, str(tmp_path), ["another"])
    assert Path(folder).exists()


def test_the_logs_of_some_work_units_can_be_deleted(tmp_path: Path) -> None:
    changed, other = attempt(tmp_path, 0), attempt(tmp_path, 1)

    drop_logs(FILES, str(tmp_path), {unit(0).signature})

    assert not Path(changed).exists()
    assert Path(other).exists()
