"""``dil state verify``: whatever of the state or of the published files was changed is found."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from dil.cli.main import main
from dil.cli.state import verifying
from dil.errors import WriteError
from dil.model.report import RunStatus
from dil.operator import replaying
from dil.state.filelog import file_log
from dil.storage import LocalFilesystem
from dil.testing.in_process import InProcessExecutor
from tests.derived import Lake
from tests.jobs import dataset, visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of

Edit = Callable[[sqlite3.Connection], None]


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


@pytest.fixture
def log_story(tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch) -> Story:
    """Return a job that keeps its state in a file log, with a snapshot after every entry but a few.

    Two snapshots are kept, and the entries behind the older one.
    """
    monkeypatch.setattr(
        file_log.FileLogDatabase.__init__, "__kwdefaults__",
        {"clock": None, "entries_per_snapshot": 3},
    )  # fmt: skip
    return Story(tmp_path, source, state__store__type="filelog")


def verified(
    story: Story, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[bool, list[str]]:
    capsys.readouterr()
    code = main(["state", "verify", str(story.folder / "orders.conf"), "--json", *options])
    told = json.loads(capsys.readouterr().out)
    assert code == (0 if told["sound"] else 1)
    return told["sound"], told["problems"]


def edited(story: Story, edit: Edit) -> None:
    (path,) = (story.folder / "state").glob("*.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        edit(connection)


def with_statements(*statements: str) -> Edit:
    def edit(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return edit


def truncate(connection: sqlite3.Connection) -> None:
    """Take the last block away, with all that tells of it in the store."""
    ((last,),) = connection.execute("SELECT MAX(seq) FROM mc_block").fetchall()
    ((block,),) = connection.execute(
        "SELECT block_hash FROM mc_block WHERE seq = ?", (last - 1,)
    ).fetchall()
    connection.execute("DELETE FROM mc_block WHERE seq = ?", (last,))
    connection.execute("UPDATE mc_head SET seq = ?, data_seq = ?, block_hash = ?",
                       (last - 1, last - 1, block))  # fmt: skip
    connection.execute("DELETE FROM work_unit WHERE seq = ?", (last,))
    connection.execute("DELETE FROM committed_run WHERE seq = ?", (last,))
    connection.execute("DELETE FROM live_file WHERE first_offset >= 8")
    ((reached,),) = connection.execute("SELECT MAX(high) FROM work_unit").fetchall()
    connection.execute("UPDATE coverage SET covered_to = ?, max_high = ?", (reached, reached))


TABLES = {
    "coverage that reaches too far": "UPDATE coverage SET covered_to = covered_to + 86400000",
    "coverage that begins too early": "UPDATE coverage SET covered_from = covered_from - 86400000",
    "a newer tail": "UPDATE coverage SET tail_from = covered_to + 86400000,"
    " tail_to = covered_to + 172800000",
    "a larger high watermark": "UPDATE coverage SET max_high = max_high + 1",
    "open work units": "UPDATE coverage SET open_count = 7",
    "no coverage": "DELETE FROM coverage",
    "an expected end": "UPDATE work_unit SET expected_high = expected_high + 1",
    "a row of another unit": "UPDATE work_unit SET unit_key = 'x'",
    "another hash": "UPDATE work_unit SET row_hash = 'x'",
    "an offset": "UPDATE live_file SET first_offset = first_offset + 1",
    "a file less": "DELETE FROM live_file WHERE first_offset = 0",
    "a file more": "INSERT INTO live_file SELECT dataset_id, 'x', 'file:///etc/passwd', 0"
    " FROM live_file LIMIT 1",
}


@pytest.mark.parametrize("statement", TABLES.values(), ids=list(TABLES))
def test_edited_tables_are_found(
    story: Story, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    story.run(day(2))
    assert verified(story, capsys) == (True, [])

    edited(story, with_statements(statement))

    assert not verified(story, capsys)[0]


def test_a_chain_that_was_truncated_with_all_its_tables_is_found_by_the_manifest(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.run(day(1))
    story.clock += 1000
    story.run(day(2))
    assert verified(story, capsys) == (True, [])

    edited(story, truncate)

    sound, problems = verified(story, capsys)
    assert not sound
    assert "the chain was truncated" in " ".join(problems)


EDITED_UNITS = {
    "a work unit less": (lambda units: units[:-1], "have 4 rows, but the file has 8"),
    "a row too many": (
        lambda units: [units[0], [*units[1][:2], 5]],
        "have 9 rows, but the file has 8",
    ),
    "a gap": (lambda units: [[*units[0][:2], 3], units[1]], "rows 3 to 3 belong to no work unit"),
    "a row twice": (
        lambda units: [[*units[0][:2], 5], units[1]],
        "row 4 belongs to two work units",
    ),
}


@pytest.mark.parametrize("case", EDITED_UNITS)
def test_a_shared_file_of_which_not_every_row_is_some_work_units_is_found_and_not_written_anew(
    story: Story, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    edit, words = EDITED_UNITS[case]
    story.changes["ms__output__file__per__work__unit"] = "false"
    story.run(day(1))
    assert verified(story, capsys) == (True, [])
    manifest = story.manifest()
    (file,) = manifest["files"]
    story.write_manifest({**manifest, "files": [{**file, "units": edit(file["units"])}]})
    rows = story.rows()

    sound, problems = verified(story, capsys)

    assert not sound
    (problem,) = problems
    assert words in problem
    assert file["uri"] in problem
    assert "Restore the newest manifest" in problem
    job, first = str(story.folder / "orders.conf"), file["units"][0][0]
    forget = ["state", "forget", job, "--signature", first, "--withdraw-files", "--yes"]
    assert main(forget) == 1
    assert words in capsys.readouterr().err
    assert story.rows() == rows


def test_an_older_copy_of_the_manifest_is_found_until_a_replace(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = dataset(story.folder) / "_dil"
    story.run(day(1))
    shutil.copytree(meta, story.folder / "copy")
    story.run(day(2))
    shutil.rmtree(meta)
    shutil.copytree(story.folder / "copy", meta)
    sound, (problem,) = verified(story, capsys)
    assert not sound
    assert "does not list 2 files" in problem

    story.run(day(3))
    assert not verified(story, capsys)[0]

    story.run(day(3), story.job(ms__publish__mode="replace"))
    assert verified(story, capsys) == (True, [])
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_manifest_that_has_other_rows_than_the_chain_is_found(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.run(day(1))
    manifest = story.manifest()
    first, *others = manifest["files"]
    story.write_manifest({**manifest, "files": [{**first, "rows": 3}, *others]})

    sound, problems = verified(story, capsys)

    assert not sound
    assert "with 3 rows, and the chain has 4" in problems[0]


def test_a_file_of_the_same_size_is_found_with_full(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.run(day(1))
    path = next(dataset(story.folder).glob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(bytes(content))

    assert verified(story, capsys) == (True, [])
    sound, problems = verified(story, capsys, "--full")

    assert not sound
    assert path.name in problems[0]


def log_folder(story: Story) -> Path:
    (folder,) = (path for path in (story.folder / "state").iterdir() if path.is_dir())
    return folder


def with_an_edited_entry(folder: Path) -> None:
    path = min(next(folder.glob("journal*")).iterdir())
    path.write_text(path.read_text().replace('"writer":"', '"writer":"x'))


def with_an_edited_snapshot(folder: Path) -> None:
    """Change the newest snapshot, and name it by its new content."""
    import hashlib

    path = max((folder / "snapshots").iterdir())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE run SET staging_dir = '/home'")
    number, _, ending = path.name.partition("-")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    shutil.move(path, path.with_name(f"{number}-{digest}.{ending.partition('.')[2]}"))


LOGS = [with_an_edited_entry, with_an_edited_snapshot]


@pytest.mark.parametrize("attack", LOGS)
def test_an_edited_file_log_is_found(
    log_story: Story, capsys: pytest.CaptureFixture[str], attack: Callable[[Path], None]
) -> None:
    for number in range(1, 5):
        log_story.run(day(number))
        log_story.clock += 1000
    assert verified(log_story, capsys) == (True, [])

    attack(log_folder(log_story))

    assert not verified(log_story, capsys)[0]


def test_a_file_log_without_its_newest_entries_is_found(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(tmp_path, source, state__store__type="filelog")
    story.run(day(1))
    before = {path.name for path in (log_folder(story) / "journal").iterdir()}
    story.clock += 1000
    story.run(day(2))
    assert verified(story, capsys) == (True, [])

    for path in (log_folder(story) / "journal").iterdir():
        if path.name not in before:
            path.unlink()

    assert not verified(story, capsys)[0]


@pytest.mark.parametrize(
    ("flags", "level", "is_json"),
    [([], "WARNING", False), (["-v"], "DEBUG", False), (["--log-format", "json"], "WARNING", True)],
)
def test_tasks_of_a_replay_log_as_the_command_line_asks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    level: str,
    is_json: bool,
) -> None:
    lake, logging = Lake(tmp_path), []
    big = lake.derive("big", "SELECT id, amount FROM orders WHERE amount >= 50")
    lake.feed(*range(10))
    lake.run(big)
    real = replaying.replay

    def without_spark(job, spec, store, options, *, first):  # type: ignore[no-untyped-def]
        logging.append((options.task_logging.level, options.task_logging.is_json))
        options = replace(options, executor=InProcessExecutor())
        return real(job, spec, store, options, first=first)

    monkeypatch.setattr(replaying, "replay", without_spark)

    assert main(["state", "verify", str(big), "--replay", *flags]) == 0
    assert logging == [(level, is_json)]


@pytest.mark.parametrize("mode", ["replace", "window_replace"])
def test_a_publish_is_sound_at_each_step_at_which_its_run_may_be_killed(
    story: Story,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    story.changes |= {"ms__publish__mode": mode, "ms__grace__period__days": "2"}
    story.run(day(1))
    deleted = []

    def delete(files: LocalFilesystem, path: str) -> None:
        delete_file(files, path)
        if path.endswith(".parquet"):
            deleted.append(path)
            assert verified(story, capsys, "--full") == (True, [])

    delete_file = LocalFilesystem.delete_file
    monkeypatch.setattr(LocalFilesystem, "delete_file", delete)
    story.run(day(2))
    assert len(deleted) == 2
    assert verified(story, capsys, "--full") == (True, [])


def test_a_lost_file_is_found_until_the_publish_that_replaces_it_is_in_the_manifest(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes["ms__publish__mode"] = "replace"
    story.run(day(1))
    lost = visible_files(story.folder)[0]
    with monkeypatch.context() as patch:
        full = Mock(side_effect=WriteError("the disk is full"))
        patch.setattr("dil.publishing.manifest.advance", full)
        assert story.run(day(2)).status is not RunStatus.SUCCESS
    assert verified(story, capsys) == (True, [])

    lost.unlink()

    is_sound, problems = verified(story, capsys)
    assert (is_sound, [each.partition(":")[0] for each in problems]) == (False, ["V20"])
    story.run(day(2))
    assert verified(story, capsys) == (True, [])


@pytest.mark.parametrize("look", ["size_of", "hash_of"])
def test_a_run_that_replaces_files_during_the_check_is_no_problem(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    story.changes["ms__publish__mode"] = "replace"
    story.run(day(1))
    runs = [day(2)]

    def found(files: object, uri: str) -> object:
        size = at_first(files, uri)
        if runs and look == "size_of":
            story.run(runs.pop())
        return size

    def content(files: object, uri: str) -> object:
        if runs:
            story.run(runs.pop())
        return hash_of(files, uri)

    at_first, hash_of = verifying._Dataset.size_of, verifying._Dataset.hash_of
    monkeypatch.setattr(verifying._Dataset, "size_of", found)
    monkeypatch.setattr(verifying._Dataset, "hash_of", content)
    assert verified(story, capsys, "--full") == (True, [])
    assert runs == []


def test_a_state_store_that_cannot_be_reached_is_an_error_and_not_unsound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(
        tmp_path, "http://127.0.0.1:1",
        state__store__type="postgresql",
        state__store__db__url="postgresql://u:p@127.0.0.1:1/state",
    )  # fmt: skip
    assert main(["state", "verify", str(job), "--json"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "[DIL-STATE]" in told.err
