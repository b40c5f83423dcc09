"""Folders whose files are read once each: ``ms.source.files.once``."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.errors import ConfigError
from dil.model.report import RunReport, RunStatus
from dil.state import open_store
from tests.integration.local_jobs import NOW, FileJob
from tests.jobs import visible_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "in"
    found.mkdir()
    return found


def put(folder: Path, name: str, *ids: int, modified: int = 1_700_000_000) -> None:
    path = folder / name
    path.write_text("".join(f'{{"id":{number}}}\n' for number in ids))
    os.utime(path, (modified, modified))


def reading(folder: Path, **changes: str) -> FileJob:
    return FileJob(
        folder.parent,
        **{
            "source__class": "hdfs",
            "ms__source__uri": str(folder),
            "ms__source__files__once": "version",
            "ms__watermark": "",
            "extract__table__type": "APPEND_ONLY",
            "job__commit__policy": "successful",
            **changes,
        },
    )


def rows(folder: Path) -> Counter[int]:
    lake = folder.parent / "lake"
    return Counter(
        number
        for path in visible_files(folder.parent)
        if lake in path.parents
        for number in pq.read_table(path).column("id").to_pylist()
    )


def started(report: RunReport) -> int:
    return report.units.planned


def test_each_file_is_a_work_unit_and_is_read_once(folder: Path) -> None:
    job = reading(folder)
    put(folder, "a.jsonl", 1, 2)
    put(folder, "b.jsonl", 3)
    assert started(job.run()) == 2
    assert job.run().status is RunStatus.NOTHING_DUE
    put(folder, "c.jsonl", 4)
    assert started(job.run()) == 1
    assert rows(folder) == Counter([1, 2, 3, 4])


def test_a_file_that_changed_is_read_again(folder: Path) -> None:
    job = reading(folder)
    put(folder, "a.jsonl", 1)
    job.run()
    put(folder, "a.jsonl", 5, modified=1_700_000_001)
    assert started(job.run()) == 1
    assert rows(folder) == Counter([1, 5])


def test_a_path_is_read_once_whatever_becomes_of_it(folder: Path) -> None:
    job = reading(folder, ms__source__files__once="path")
    put(folder, "a.jsonl", 1)
    job.run()
    put(folder, "a.jsonl", 5, modified=1_700_000_001)
    assert job.run().status is RunStatus.NOTHING_DUE


def test_a_file_that_fails_is_tried_again_and_holds_no_other_back(folder: Path) -> None:
    job = reading(folder)
    put(folder, "a.jsonl", 1)
    (folder / "b.jsonl").write_text('{"id":')
    report = job.run()
    assert (report.status, len(report.failures)) == (RunStatus.PARTIAL, 1)
    assert rows(folder) == Counter([1])
    put(folder, "b.jsonl", 2)
    put(folder, "c.jsonl", 3)
    assert job.run().status is RunStatus.SUCCESS
    assert rows(folder) == Counter([1, 2, 3])


def test_a_pattern_chooses_the_files(folder: Path) -> None:
    job = reading(folder, ms__source__files__pattern=".*/a.*")
    put(folder, "a.jsonl", 1)
    put(folder, "b.jsonl", 2)
    assert started(job.run()) == 1
    assert rows(folder) == Counter([1])


def test_an_empty_folder_is_nothing_due(folder: Path) -> None:
    report = reading(folder).run()
    assert report.status is RunStatus.NOTHING_DUE
    assert report.notes == ("nothing is due: the source has nothing to read",)


def test_a_file_that_was_forgotten_is_read_again(folder: Path) -> None:
    job = reading(folder)
    put(folder, "a.jsonl", 1)
    put(folder, "b.jsonl", 2)
    job.run()
    unit = f'{{"file":"{folder}/a.jsonl"'
    with open_store(job.job().state, "files", clock=lambda: NOW) as store:
        (signature,) = (row.signature for row in store.unit_states() if unit in row.signature)
    path = str(folder.parent / "files.conf")
    main(["state", "forget", path, "--signature", signature, "--withdraw-files", "--yes"])
    assert rows(folder) == Counter([2])
    assert started(job.run()) == 1
    assert rows(folder) == Counter([1, 2])


def test_files_told_apart_in_another_way_are_not_read_again_without_a_word(folder: Path) -> None:
    job = reading(folder)
    put(folder, "a.jsonl", 1)
    job.run()
    with pytest.raises(ConfigError, match="published again"):
        job.run(ms__source__files__once="path")
    assert rows(folder) == Counter([1])


def test_a_total_that_each_file_tells_is_not_that_of_all_files(folder: Path) -> None:
    for name in "abc":
        (folder / f"{name}.json").write_text(f'{{"total":1,"rows":[{{"id":{ord(name)}}}]}}')
    job = reading(
        folder,
        ms__source__files__once="none",
        ms__data__field="rows",
        ms__total__count__field="total",
        ms__publish__mode="append",
    )
    assert job.run().status is RunStatus.SUCCESS
    assert rows(folder) == Counter(map(ord, "abc"))
