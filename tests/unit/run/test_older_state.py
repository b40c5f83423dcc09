"""Runs from an older copy of the state, and runs that publish elsewhere than the ones before."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from dil import config
from dil.cli.main import main
from dil.errors import ConfigError, StateError
from dil.model.report import RunStatus
from dil.publishing.publisher import Publisher
from dil.run.job_run import run_job
from dil.storage.local import LocalFilesystem
from tests.derived import Lake
from tests.jobs import dataset, properties, visible_files
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, failing, ids_of, work_unit

DESTINATIONS = {
    "files": {},
    "delta": {"ms__table__format": "delta"},
    "sqlite": {"ms__warehouse__url": "sqlite:///{folder}/shop.db"},
}


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path / "job", source)


def kept(story: Story) -> Path:
    """Copy the state away."""
    copy = story.folder / "copy"
    shutil.copytree(story.folder / "state", copy)
    return copy


def put_back(story: Story, copy: Path) -> None:
    shutil.rmtree(story.folder / "state")
    shutil.copytree(copy, story.folder / "state")


def in_sqlite(folder: Path) -> dict[str, str]:
    return {"ms__warehouse__url": f"sqlite:///{folder}/shop.db"}


def loaded(folder: Path) -> Counter[tuple[str, int]]:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        return Counter(connection.execute("SELECT unit, id FROM orders"))


def verified(story: Story, capsys: pytest.CaptureFixture[str]) -> list[str]:
    story.job()
    main(["state", "verify", str(story.folder / "orders.conf"), "--json"])
    problems: list[str] = json.loads(capsys.readouterr().out)["problems"]
    return problems


@pytest.mark.parametrize("kind", DESTINATIONS)
def test_an_older_copy_of_the_state_appends_nothing(
    tmp_path: Path, source: HttpServer, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {key: value.format(folder=tmp_path) for key, value in DESTINATIONS[kind].items()}
    story = Story(tmp_path / "job", source, **given)
    story.run(day(1))
    copy = kept(story)
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert verified(story, capsys) == []
    put_back(story, copy)

    assert any("the state is an older copy" in each for each in verified(story, capsys))
    for now in (day(1), day(2), day(3)):
        with pytest.raises(StateError):
            story.run(now)


@pytest.mark.parametrize("kind", DESTINATIONS)
def test_a_copy_from_before_the_first_publish_appends_nothing(
    tmp_path: Path, source: HttpServer, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {key: value.format(folder=tmp_path) for key, value in DESTINATIONS[kind].items()}
    story = Story(tmp_path / "job", source, **given)
    source.faults.extend(failing(0, unit) for unit in "ab")
    assert story.run(day(1)).status is RunStatus.FAILED
    source.faults.clear()
    conf, backup = str(story.folder / "orders.conf"), str(tmp_path / "backup.db")
    assert main(["state", "backup", conf, backup, "--yes"]) == 0
    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert main(["state", "restore", conf, backup, "--yes"]) == 0
    capsys.readouterr()

    assert any("knows of no publish" in each for each in verified(story, capsys))
    with pytest.raises(StateError, match="knows of no publish") as caught:
        story.run(day(2))
    assert "ms.publish.mode=replace" in caught.value.fix
    assert "window_replace" not in caught.value.fix  # the next run would append what it leaves
    if kind != "sqlite":  # a look would make its file
        assert main(["check", conf]) == 1
        assert "knows of no publish" in capsys.readouterr().err
    mode = "replace" if kind == "sqlite" else "window_replace"
    report = story.run(day(2), story.job(ms__publish__mode=mode))
    assert report.rows == ids_of("a", "b", days=range(2)).total()
    assert story.run(day(3)).rows == ids_of("a", "b", days=range(2, 3)).total()
    if kind == "files":
        assert story.rows() == ids_of("a", "b", days=range(3))
    assert verified(story, capsys) == []


@pytest.mark.parametrize("kind", DESTINATIONS)
def test_a_new_job_may_append_to_the_dataset_of_another(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    given = {key: value.format(folder=tmp_path) for key, value in DESTINATIONS[kind].items()}
    given["data__publisher__final__dir"] = str(tmp_path / "lake")
    first = Story(tmp_path / "first", source, **given)
    second = Story(tmp_path / "second", source, job__name="others", **given)
    assert first.run(day(1)).status is RunStatus.SUCCESS
    assert second.run(day(1), run_id="other-1").status is RunStatus.SUCCESS
    assert first.run(day(2)).status is RunStatus.SUCCESS


def test_watermarks_may_be_imported_where_the_state_was_lost(story: Story, tmp_path: Path) -> None:
    story.run(day(1))
    shutil.rmtree(story.folder / "state")
    rows = "".join(f'orders,"{_quoted(work_unit(0, unit))}",{day(1)}\n' for unit in "ab")
    file = tmp_path / "highs.csv"
    file.write_text(f"job,signature,high\n{rows}")

    assert main(["state", "import", str(story.folder / "orders.conf"), str(file), "--yes"]) == 0
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_without_its_state_a_job_publishes_only_the_range_of_a_backfill(story: Story) -> None:
    """A backfill reads its range again, whatever was published."""
    story.run(day(1))
    shutil.rmtree(story.folder / "state")
    with pytest.raises(StateError):
        story.run(day(1))

    assert story.run(day(1), story.job(ms__backfill="true")).status is RunStatus.SUCCESS


def _quoted(text: str) -> str:
    return text.replace('"', '""')


def test_rows_replaced_by_work_unit_bring_an_older_state_up_to_date(
    story: Story, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    story.run(day(1))
    copy = kept(story)
    story.run(day(2))
    put_back(story, copy)

    with caplog.at_level(logging.WARNING):
        story.run(day(2), story.job(ms__publish__mode="window_replace"))
    assert "the state is an older copy" in caplog.text
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert verified(story, capsys) == []
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_an_older_state_is_not_taken_for_an_older_database(
    tmp_path: Path, source: HttpServer
) -> None:
    """The newer state's last run replaced rows that the older one loaded."""
    replacing = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}
    story = Story(tmp_path / "job", source, **replacing, **in_sqlite(tmp_path))
    story.run(day(1))
    copy = kept(story)
    story.run(day(2))
    put_back(story, copy)
    for now in (day(2), day(3)):
        assert story.run(now).status is RunStatus.SUCCESS
    assert loaded(tmp_path) == ids_of("a", "b", days=range(3))


def test_a_copy_that_was_made_while_rows_were_being_published_is_finished(story: Story) -> None:
    """An intent is kept with its number, so that what it brings is not unknown."""
    story.run(day(1))
    with story.store() as store:
        known = store.checkpoint("publish")
    assert known["sequence"] == 0
    story.run(day(2))
    with story.store() as store:
        assert store.checkpoint("publish")["sequence"] == 1


def test_another_final_dir_is_refused_until_everything_is_forgotten(story: Story) -> None:
    story.run(day(2))
    elsewhere = {"data__publisher__final__dir": str(story.folder / "elsewhere")}
    for now in (day(2), day(3)):
        with pytest.raises(ConfigError) as caught:
            story.run(now, story.job(**elsewhere))
        assert caught.value.problems[0].key == "data.publisher.final.dir"
    assert not (story.folder / "elsewhere" / "shop").exists()

    story.changes |= elsewhere
    story.job()
    conf = str(story.folder / "orders.conf")
    assert main(["state", "forget", conf, "--all", "--keep-files", "--yes"]) == 0
    assert story.run(day(2)).rows == ids_of("a", "b", days=range(2)).total()


def test_another_warehouse_is_refused(tmp_path: Path, source: HttpServer) -> None:
    story = Story(tmp_path / "job", source, ms__warehouse__url=f"sqlite:///{tmp_path}/one.db")
    story.run(day(1))
    with pytest.raises(ConfigError) as caught:
        story.run(day(1), story.job(ms__warehouse__url=f"sqlite:///{tmp_path}/two.db"))
    assert caught.value.problems[0].key == "ms.warehouse.url"


def test_a_replace_may_go_elsewhere_because_it_reads_everything(story: Story) -> None:
    story.run(day(2))
    story.changes |= {"data__publisher__final__dir": str(story.folder / "elsewhere")}
    report = story.run(day(2), story.job(ms__publish__mode="replace"))
    assert report.rows == ids_of("a", "b", days=range(2)).total()
    assert story.run(day(2)).status is RunStatus.NOTHING_DUE


@pytest.mark.parametrize("kind", ["files", "delta"])
def test_runs_say_that_a_dataset_is_gone_until_rows_are_published_there(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    story = Story(tmp_path / "job", source, **DESTINATIONS[kind])
    story.run(day(1))
    shutil.rmtree(story.folder / "lake")
    idle, due, later = story.run(day(1)), story.run(day(2)), story.run(day(3))
    assert idle.status is RunStatus.NOTHING_DUE
    gone = [any("ROWS ARE GONE" in note for note in each.notes) for each in (idle, due, later)]
    assert gone == [True, True, False]


def test_no_run_says_that_a_dataset_is_gone_whose_rows_are_to_be_read_again(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.run(day(1))
    shutil.rmtree(story.folder / "lake")
    conf = str(story.folder / "orders.conf")
    assert main(["state", "forget", conf, "--all", "--keep-files", "--yes"]) == 0
    capsys.readouterr()
    again = story.run(day(1))
    assert again.status is RunStatus.SUCCESS
    assert not any("ROWS ARE GONE" in note for note in again.notes)


@pytest.mark.parametrize("kind", ["files", "delta"])
def test_rows_that_an_older_copy_of_a_dataset_lacks_come_back(
    tmp_path: Path, source: HttpServer, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(tmp_path / "job", source, **DESTINATIONS[kind])
    lake = story.folder / "lake"
    story.run(day(1))
    shutil.copytree(lake, tmp_path / "lake")
    story.run(day(2))
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "lake", lake)

    assert any("ROWS ARE GONE" in note for note in story.run(day(2)).notes)
    conf = str(story.folder / "orders.conf")
    assert main(["state", "forget", conf, "--all", "--yes"]) == 2  # some rows are there
    assert main(["state", "forget", conf, "--from", "2020-01-02", "--yes"]) == 0
    assert story.run(day(2)).rows == ids_of("a", "b", days=range(1, 2)).total()
    assert main(["state", "relist", conf, "--yes"]) == 0
    capsys.readouterr()
    assert verified(story, capsys) == []
    assert not any("ROWS ARE GONE" in note for note in story.run(day(3)).notes)


def test_rows_are_not_gone_with_the_records_of_their_dataset(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.run(day(1))
    shutil.rmtree(dataset(story.folder) / "_dil")
    (problem,) = verified(story, capsys)
    assert "does not list 2 files" in problem
    notes = [story.run(day(days)).notes for days in (1, 2, 3)]
    assert not any("ROWS ARE GONE" in note for each in notes for note in each)
    unlisted = [any("FILES ARE NOT LISTED" in note for note in each) for each in notes]
    assert unlisted == [True, True, False]


@pytest.mark.parametrize("lost", ["all records", "the newest manifest"])
def test_no_rows_are_merged_into_files_that_the_manifest_does_not_list(
    tmp_path: Path, source: HttpServer, lost: str
) -> None:
    merge = {"extract__primary__key__fields": "unit,id", "extract__delta__fields": "updated_ms"}
    story = Story(tmp_path / "job", source, ms__publish__mode="merge", **merge)
    story.changes["ms__grace__period__days"] = "1"
    records = dataset(story.folder) / "_dil"
    story.run(day(1))
    shutil.copytree(records, tmp_path / "copy")
    story.run(day(2))
    shutil.rmtree(records)
    if lost == "the newest manifest":
        shutil.copytree(tmp_path / "copy", records)

    with pytest.raises(StateError):
        story.run(day(3))

    again = story.run(day(3), story.job(ms__publish__mode="replace"))
    assert again.status is RunStatus.SUCCESS
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_the_advice_on_a_lost_manifest_lets_a_query_that_merges_go_on(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    merge = {"ms__publish__mode": "merge", "extract__primary__key__fields": "id"}
    path = lake.derive("sums", "SELECT id, amount FROM orders", **merge)
    lake.feed(1, 2)
    lake.run(path)
    shutil.rmtree(tmp_path / "lake/shop/sums/_dil")
    lake.feed(3)
    with pytest.raises(StateError) as caught:
        lake.run(path)
    options = caught.value.fix.partition("run once with ")[2].partition(",")[0]
    given = dict(word.split("=", 1) for word in options.split() if word != "-D")
    run_job(config.load(path, overrides=given, environ={}).job, lake.options())
    assert lake.ids("sums") == Counter([1, 2, 3])


def test_files_of_a_dataset_that_was_moved_away_are_not_asked_for_one_by_one(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = {"extract__primary__key__fields": "unit,id", "extract__delta__fields": "updated_ms"}
    story = Story(tmp_path / "job", source, ms__publish__mode="merge", **merge)
    story.run(day(3))
    away = {str(path) for path in visible_files(story.folder)}
    dataset(story.folder).rename(tmp_path / "away")
    story.run(day(4))
    asked: list[str] = []
    exists = LocalFilesystem.exists

    def noted(self: LocalFilesystem, path: str) -> bool:
        asked.append(path)
        return exists(self, path)

    monkeypatch.setattr(LocalFilesystem, "exists", noted)
    assert story.run(day(5)).status is RunStatus.SUCCESS
    assert asked
    assert away.isdisjoint(asked)


def test_a_publish_that_was_given_up_leaves_no_rows_gone(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.run(day(1))
    crash_before_publish(story, day(2))
    assert main(["runs", "abandon", str(story.folder / "orders.conf"), "--yes"]) == 0
    capsys.readouterr()
    story.source.faults.extend(failing(1, unit) for unit in "ab")
    report = story.run(day(2))
    assert not any("ROWS ARE GONE" in note for note in report.notes)


def crash_before_publish(story: Story, now: int) -> None:
    def crash(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Publisher, "carry_out", crash)
        story.run(now)


def test_a_publish_that_a_lagging_replica_gets_hides_no_lost_load(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(tmp_path / "job", source, **in_sqlite(tmp_path))
    story.run(day(1))
    replica = (tmp_path / "shop.db").read_bytes()
    story.run(day(2))
    crash_before_publish(story, day(3))
    (tmp_path / "shop.db").write_bytes(replica)

    for _ in range(2):
        with pytest.raises(StateError):
            story.run(day(3))
    assert loaded(tmp_path) == Counter(
        {**ids_of("a", "b", days=range(1)), **ids_of("a", "b", days=range(2, 3))}
    )
    forget = ["state", "forget", str(story.folder / "orders.conf"), "--from", "2020-01-02"]
    assert main([*forget, "--yes"]) == 2  # the rows of a later day are there
    assert main([*forget, "--to", "2020-01-03", "--yes"]) == 0
    story.run(day(3))
    assert main(["state", "relist", str(story.folder / "orders.conf"), "--yes"]) == 0
    capsys.readouterr()
    assert verified(story, capsys) == []
    for now in (day(3), day(4)):
        story.run(now)
    assert loaded(tmp_path) == ids_of("a", "b", days=range(4))


def test_old_records_may_be_pruned_before_a_database_is_restored(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(tmp_path / "job", source, **in_sqlite(tmp_path))
    story.run(day(1))
    backup = (tmp_path / "shop.db").read_bytes()
    story.run(day(2))
    facts = json.loads(properties(story.folder, source.url)["ms.watermark"])
    facts[0]["range"]["from"] = "2020-01-02"
    story.changes |= {"ms__watermark": json.dumps(facts), "ms__retention": '{"state.store": "P1D"}'}
    story.job()
    assert main(["state", "prune", str(story.folder / "orders.conf"), "--yes"]) == 0
    assert "2 work units to change" in capsys.readouterr().out
    (tmp_path / "shop.db").write_bytes(backup)
    with pytest.raises(StateError):
        story.run(day(3))


def test_files_that_are_read_once_come_back_by_their_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such work units have no date, so a date would choose all of them or none."""
    lake = Lake(tmp_path / "job")
    dataset, copy = lake.folder / "lake" / "shop" / "orders", tmp_path / "copy"
    lake.feed(*range(10))
    shutil.copytree(dataset, copy)
    lake.feed(*range(10, 20))
    shutil.rmtree(dataset)
    shutil.copytree(copy, dataset)

    (note,) = (each for each in lake.run(lake.orders).notes if "ROWS ARE GONE" in each)
    assert "forget JOB.conf --unit UNIT" in note
    unit = json.dumps({"file": str(lake.folder / "in" / "0002.json")})
    assert main(["state", "forget", str(lake.orders), "--unit", unit, "--yes"]) == 0
    lake.run(lake.orders)
    assert main(["state", "relist", str(lake.orders), "--yes"]) == 0
    assert lake.ids("orders") == Counter(range(20))
    assert main(["state", "verify", str(lake.orders)]) == 0
    capsys.readouterr()
