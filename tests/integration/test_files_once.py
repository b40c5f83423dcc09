"""Folders whose files are read once each: ``ms.source.files.once``."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.errors import (
    ConfigError,
    PlanningError,
    SourceContractError,
    SourceError,
    WriteError,
)
from dil.model.report import RunReport, RunStatus
from dil.publishing.publisher import Publisher
from dil.run.plan_builder import plan_job
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


def test_a_name_that_is_no_text_is_an_error_until_the_pattern_leaves_it_out(folder: Path) -> None:
    put(folder, "a.jsonl", 1)
    Path(os.fsdecode(bytes(folder) + b"/b\xff.jsonl")).write_text('{"id":2}')
    for once in ("version", "path"):
        job = reading(folder, ms__source__files__once=once)
        with pytest.raises(
            SourceError, match=r"/in/b\\udcff\.jsonl: the name is not UTF-8"
        ) as told:
            job.run()
        assert "ms.source.files.pattern" in told.value.fix
    assert reading(folder, ms__source__files__pattern=".*/a.*").run().status is RunStatus.SUCCESS
    assert rows(folder) == Counter([1])


def test_a_file_that_a_link_shows_once_more_is_an_error_until_the_pattern_chooses(
    folder: Path,
) -> None:
    put(folder, "a.jsonl", 1)
    (folder / "latest.jsonl").symlink_to("a.jsonl")
    with pytest.raises(SourceError, match=r"/latest\.jsonl: it is the same file as .*/a\.jsonl"):
        reading(folder).run()
    assert reading(folder, ms__source__files__pattern=".*/a.*").run().status is RunStatus.SUCCESS
    assert rows(folder) == Counter([1])


def test_an_empty_folder_is_nothing_due(folder: Path) -> None:
    report = reading(folder).run()
    assert report.status is RunStatus.NOTHING_DUE
    assert report.notes == ("nothing is due: the source has nothing to read",)


def test_the_name_of_each_rows_file_is_a_derived_field(folder: Path) -> None:
    put(folder, "a.jsonl", 1, 2)
    put(folder, "b.jsonl", 3)
    source = '{"type": "string", "source": "{{file}}"}'
    job = reading(folder, ms__derived__fields=f'[{{"name": "from", "formula": {source}}}]')
    assert job.run().status is RunStatus.SUCCESS
    lake = folder.parent / "lake"
    named = {
        (row["id"], row["from"])
        for path in visible_files(folder.parent)
        if lake in path.parents
        for row in pq.read_table(path).to_pylist()
    }
    a, b = str(folder / "a.jsonl"), str(folder / "b.jsonl")
    assert named == {(1, a), (2, a), (3, b)}


def test_a_place_without_a_file_that_matches_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, "a.jsonl", 1)
    job = reading(folder, ms__source__files__pattern=".*/b.*")
    told = f"{folder} was listed and has 0 files to read that match ms.source.files.pattern=.*/b.*"
    assert job.run().status is RunStatus.NOTHING_DUE
    plan_job(job.job(), now_ms=NOW)
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [told in each.getMessage() for each in warnings] == [True, True]


def test_nothing_new_to_read_is_an_error_where_that_is_said(folder: Path) -> None:
    job = reading(folder, ms__work__unit__min__units="1")
    with pytest.raises(PlanningError, match="0 work units"):
        job.run()
    put(folder, "a.jsonl", 1)
    assert job.run().status is RunStatus.SUCCESS
    with pytest.raises(PlanningError, match="0 work units"):
        job.run()


def test_a_look_at_a_place_without_files_tells_what_was_listed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reading(folder).job()
    path = str(folder.parent / "files.conf")
    for command in ("preview", "check"):
        assert main([command, path]) == 0
        assert f"{folder} was listed and has 0 files to read." in capsys.readouterr().out
        assert main([command, path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["requests"] == []


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


def dumping(folder: Path, **changes: str) -> FileJob:
    return reading(
        folder,
        ms__extractor__class="filedump",
        ms__extractor__target__file__name="{{file}}",
        ms__extract__preprocessors="gunzip",
        **changes,
    )


def compressed(folder: Path, name: str, text: str, *, modified: int = 1_700_000_000) -> None:
    (folder / name).write_bytes(gzip.compress(text.encode()))
    os.utime(folder / name, (modified, modified))


def dumps(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in visible_files(folder.parent)}


def test_a_file_does_not_take_the_name_of_one_that_is_still_at_the_source(folder: Path) -> None:
    job = dumping(folder)
    compressed(folder, "a.csv.gz", "first")
    job.run()
    compressed(folder, "a.csv", "second")
    compressed(folder, "b.csv", "third")
    report = job.run()
    assert report.status is RunStatus.PARTIAL
    assert "a.csv.gz" in report.failures[0].error
    assert dumps(folder) == {"a.csv": "first", "b.csv": "third"}


def test_a_taken_name_is_reported_where_the_publish_fails_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise WriteError("the disk is full")

    job = dumping(folder)
    compressed(folder, "a.csv.gz", "first")
    job.run()
    compressed(folder, "a.csv", "second")
    compressed(folder, "b.csv", "third")
    monkeypatch.setattr(Publisher, "carry_out", refuse)
    report = job.run()
    assert report.status is RunStatus.FAILED
    assert [each.code for each in report.failures] == [SourceContractError.code, WriteError.code]
    assert dumps(folder) == {"a.csv": "first"}


def test_a_file_whose_namesake_is_gone_replaces_its_dump_with_a_note(folder: Path) -> None:
    job = dumping(folder)
    compressed(folder, "a.csv.gz", "first")
    job.run()
    (folder / "a.csv.gz").unlink()
    compressed(folder, "a.csv", "second")
    report = job.run()
    assert report.status is RunStatus.SUCCESS
    assert any("a.csv.gz" in note for note in report.notes)
    assert dumps(folder) == {"a.csv": "second"}


def test_a_changed_file_replaces_its_own_dump_without_a_word(folder: Path) -> None:
    job = dumping(folder)
    compressed(folder, "a.csv.gz", "first")
    job.run()
    compressed(folder, "a.csv.gz", "second", modified=1_700_000_001)
    report = job.run()
    assert (report.status, report.notes) == (RunStatus.SUCCESS, ())
    assert dumps(folder) == {"a.csv": "second"}


def is_of_gone(note: str) -> bool:
    return note.startswith("failed earlier, and not tried again")


def test_a_file_that_failed_and_is_gone_is_told_of_until_it_is_forgotten(folder: Path) -> None:
    job = reading(folder)
    put(folder, "a.jsonl", 1)
    for name in ("b.jsonl", "c.jsonl"):
        (folder / name).write_text('{"id":')
    assert not any(map(is_of_gone, job.run().notes))
    assert not any(map(is_of_gone, job.run().notes))  # both are tried again
    (folder / "b.jsonl").unlink()
    put(folder, "c.jsonl", 3)
    put(folder, "d.jsonl", 4)
    reports = [job.run(), job.run()]
    assert [report.status for report in reports] == [RunStatus.SUCCESS, RunStatus.NOTHING_DUE]
    for report in reports:
        (note,) = filter(is_of_gone, report.notes)
        assert "2 files" in note
    with open_store(job.job().state, job.name, clock=lambda: NOW) as store:
        failed = [each.signature for each in store.unit_states() if each.status == "FAILED"]
    conf = str(folder.parent / "files.conf")
    for signature in failed:
        forget = ["state", "forget", conf, "--signature", signature, "--keep-files", "--yes"]
        assert main(forget) == 0
    assert not any(map(is_of_gone, job.run().notes))


def test_a_csv_file_without_its_header_line_fails_alone_and_is_named(folder: Path) -> None:
    job = reading(folder, ms__extractor__class="csv", ms__csv='{"columnHeaderIndex": 0}')
    (folder / "a.csv").write_text("id,name\n1,Ann\n")
    job.run()
    (folder / "b.csv").write_text("2,Bob\n3,Carl\n")
    (folder / "c.csv").write_text("id,name\n4,Dora\n")

    report = job.run()

    (failed,) = report.failures
    assert "/in/b.csv" in failed.error
    assert '"9,Aaa"' in failed.error
    assert "Bob" not in failed.error
    assert rows(folder) == Counter([1, 4])
