"""One run with -D replaces the dataset: state then knows of no rows but those of that run."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from dil import config
from dil.cli.main import main
from dil.errors import ConfigError
from dil.model.job import Job
from dil.model.report import RunStatus
from dil.run.forgetting import forgotten_by_plan
from dil.run.job_run import run_job
from dil.run.plan_builder import plan_job
from dil.state.blocks.verification import verify_chain
from tests.derived import Lake
from tests.jobs import write_job
from tests.killed import KilledError, killed
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, failing, ids_of, work_unit
from tests.table_readers import FORMATS, ids, rows_of
from tests.warehouses import new_warehouse

LAST_DAY = 6
MODES = {
    "append": {"ms__publish__mode": "append"},
    "window_replace": {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"},
    "merge": {
        "ms__publish__mode": "merge",
        "extract__primary__key__fields": "id,unit",
        "extract__delta__fields": "updated_ms",
        "ms__grace__period__days": "1",
    },
    "shared files": {"ms__publish__mode": "append", "ms__output__file__per__work__unit": "false"},
}


def watermark(units: str = "a,b", begin: str = "2020-01-01", end: str = "P0D") -> str:
    return json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": begin, "to": end}},
            {"name": "unit", "type": "unit", "units": units},
        ]
    )


def once(story: Story, changes: dict[str, str], **flags: str) -> Job:
    """Return the story's job as one run with these flags and -D ms.publish.mode=replace has it."""
    path = write_job(story.folder, story.source.url, **{**story.changes, **changes})
    given = {name.replace("__", "."): value for name, value in flags.items()}
    return config.load(path, overrides={"ms.publish.mode": "replace", **given}, environ={}).job


def test_a_replace_forgets_what_it_does_not_read_and_the_next_run_reads_it(story: Story) -> None:
    story.run(day(2))
    narrow = once(story, {}, ms__watermark=watermark("a"))

    report = story.run(day(2), narrow)

    (note,) = (note for note in report.notes if note.startswith("FORGOT"))
    assert note.startswith(f"FORGOT 2 work units, for example {work_unit(0, 'b')}: ")
    assert story.rows() == ids_of("a", days=range(2))
    assert story.states().keys() == {work_unit(0, "a"), work_unit(1, "a")}
    assert story.head() is not None
    assert not [note for note in story.run(day(2), narrow).notes if "FORGOT" in note]

    again = story.run(day(3))

    assert again.units.planned == 4
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_replace_that_reads_less_of_a_work_unit_lowers_its_high_watermark(story: Story) -> None:
    whole = {"ms__work__unit__partition": "none"}
    story.run(day(4), story.job(**whole))

    report = story.run(day(2), once(story, whole))
    assert [note for note in report.notes if note.startswith("FORGOT 2 work units")]
    assert {state.high for state in story.states().values()} == {day(2)}

    story.run(day(5), story.job(**whole))
    assert story.rows() == ids_of("a", "b", days=range(5))


def command(story: Story, *words: str) -> int:
    return main([*words[:2], str(story.folder / "orders.conf"), *words[2:], "--yes"])


OFF = {"state__store__enabled": "false"}


def test_a_replace_without_state_forgets_what_it_does_not_read(story: Story) -> None:
    story.run(day(2))

    report = story.run(day(2), once(story, {}, ms__watermark=watermark("a"), **OFF))

    assert [note for note in report.notes if note.startswith("FORGOT 2 work units")]
    assert not [note for note in report.notes if note.startswith("NOT RECORDED")]
    assert story.states().keys() == {work_unit(0, "a"), work_unit(1, "a")}
    assert story.head() is not None
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_replace_without_state_forgets_imported_work_units(story: Story) -> None:
    rows = story.folder / "highs.json"
    highs = (
        {"job": "orders", "signature": work_unit(0, unit), "high": str(day(1))} for unit in "ab"
    )
    rows.write_text("\n".join(map(json.dumps, highs)))
    story.job()
    assert command(story, "state", "import", str(rows)) == 0

    story.run(day(1), once(story, {}, ms__watermark=watermark("a"), **OFF))

    assert story.states().keys() == {work_unit(0, "a")}
    story.run(day(1))
    assert story.rows() == ids_of("a", "b", days=range(1))


KEYS = {"extract__primary__key__fields": "id,unit", "extract__delta__fields": "updated_ms"}


@pytest.mark.parametrize("mode", ["append", "replace", "window_replace", "merge"])
def test_a_run_without_state_names_the_rows_that_the_next_run_appends_again(
    mode: str, story: Story
) -> None:
    story.run(day(2), story.job(**KEYS))
    report = story.run(day(3), once(story, KEYS, ms__publish__mode=mode, **OFF))
    (note,) = (note for note in report.notes if note.startswith("NOT RECORDED"))
    assert note.startswith(f"NOT RECORDED 2 work units, for example {work_unit(2, 'a')}: ")
    assert story.states().keys() == {work_unit(number, unit) for number in (0, 1) for unit in "ab"}
    assert main(["state", "verify", str(story.folder / "orders.conf")]) == 0

    # A run that has nothing new to record has nothing to say.
    report = story.run(day(2), once(story, KEYS, ms__publish__mode=mode, **OFF))
    assert not [note for note in report.notes if note.startswith("NOT RECORDED")]


def test_a_run_without_state_does_not_name_files_that_are_read_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(1)
    lake.run(lake.orders)
    lake.add(2)

    flags = {"state.store.enabled": "false"}
    job = config.load(lake.orders, overrides=flags, environ={}).job
    report = run_job(job, lake.options())

    (note,) = (note for note in report.notes if note.startswith("NOT RECORDED"))
    assert note.startswith("NOT RECORDED 1 work unit, for example ")
    assert "0002.json" in note
    assert lake.run(lake.orders).rows == 1


@pytest.mark.parametrize("mode", ["window_replace", "merge"])
def test_a_replace_without_state_names_no_rows_that_the_next_run_replaces(
    mode: str, story: Story
) -> None:
    changes = {**KEYS, "ms__publish__mode": mode}
    story.run(day(2), story.job(**changes))

    report = story.run(day(3), once(story, changes, **OFF))

    assert not [note for note in report.notes if note.startswith("NOT RECORDED")]
    story.run(day(4), story.job(**changes))
    assert story.rows() == ids_of("a", "b", days=range(4))


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_job_that_never_keeps_state_has_nothing_to_say(mode: str, story: Story) -> None:
    for number in (2, 3):
        for written, flags in (({}, OFF), (OFF, {})):
            report = story.run(day(number), once(story, written, ms__publish__mode=mode, **flags))
            assert not [each for each in report.notes if each.startswith(("FORGOT", "NOT REC"))]
    assert story.states() == {}
    assert story.head() is None


def test_a_window_may_be_read_further_after_a_replace_that_was_shorter(story: Story) -> None:
    weekly = {**MODES["window_replace"], "ms__work__unit__partition": "weekly"}
    story.run(day(4), story.job(**weekly))
    story.run(day(2), once(story, weekly))

    assert story.run(day(3), story.job(**weekly)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_job_whose_own_mode_is_replace_forgets_without_a_word(story: Story) -> None:
    replaced = {"ms__publish__mode": "replace"}
    story.run(day(3))

    later = story.job(**replaced, ms__watermark=watermark("a", begin="2020-01-03"))
    report = story.run(day(4), later)
    assert not [note for note in report.notes if "FORGOT" in note]
    assert story.states().keys() == {work_unit(2, "a"), work_unit(3, "a")}

    # The file has its former mode and units again.
    story.run(day(5))
    assert story.rows() == ids_of("a", "b", days=range(5))


def test_a_replace_on_other_partitions_is_followed_by_a_replace_of_everything(story: Story) -> None:
    story.run(day(3))
    story.run(day(4), once(story, {}, ms__work__unit__partition="weekly"))

    with pytest.raises(ConfigError) as refused:
        story.run(day(5))

    assert "-D ms.publish.mode=replace" in refused.value.problems[0].fix
    story.run(day(5), once(story, {}))
    story.run(day(6))
    assert story.rows() == ids_of("a", "b", days=range(6))


@pytest.mark.parametrize(
    "flag", ["extract.table.type=SNAPSHOT_ONLY", "data.publisher.replace.final.dir=true"]
)
def test_any_replace_of_one_run_keeps_the_rows_that_a_merge_keeps(
    flag: str, tmp_path: Path
) -> None:
    keys = {"extract__primary__key__fields": "id,unit", "extract__delta__fields": "updated_ms"}
    kinds = {"ms__table__format": "delta", "extract__table__type": "SNAPSHOT_APPEND"}
    path = write_job(tmp_path, "http://localhost", **keys, **kinds)
    name, _, value = flag.partition("=")
    publishing = config.load(path, overrides={name: value}, environ={}).job.publishing
    assert (publishing.mode, publishing.merge is not None) == ("replace", True)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ({"ms__publish__mode": "${mode}"}, "ms.publish.mode"),
        ({"ms__publish__mode": "${env:MODE}"}, "ms.publish.mode"),
        ({}, "ms.publish.mode"),
        ({}, "mode"),
    ],
    ids=["reference", "environment", "template", "template and reference"],
)
def test_a_replace_of_one_run_keeps_the_rows_of_a_merge_wherever_the_merge_is_written(
    written: dict[str, str], name: str, tmp_path: Path
) -> None:
    (tmp_path / "own.template").write_text("mode=merge\nms.publish.mode=${mode}\n")
    keys = {"extract__primary__key__fields": "id,unit", "extract__delta__fields": "updated_ms"}
    path = write_job(tmp_path, "http://localhost", **keys, **written, job__template="own.template")
    job = config.load(path, overrides={name: "replace"}, environ={"MODE": "merge"}).job
    publishing = job.publishing
    assert (publishing.mode, publishing.merge is not None) == ("replace", True)


@pytest.mark.parametrize(
    ("written", "flags", "is_once"),
    [
        ({}, {"ms.publish.mode": "replace"}, True),
        ({"ms__publish__mode": "merge"}, {"ms.publish.mode": "replace"}, True),
        ({}, {"data.publisher.replace.final.dir": "true"}, True),
        ({"ms__table__format": "delta"}, {"extract.table.type": "SNAPSHOT_ONLY"}, True),
        ({"ms__publish__mode": "replace"}, {"ms.publish.mode": "replace"}, False),
        ({"ms__publish__mode": "replace"}, {"job.commit.policy": "full"}, False),
        ({"data__publisher__replace__final__dir": "true"}, {"ms.publish.mode": "replace"}, False),
        ({"ms__table__format": "delta", "extract__table__type": "SNAPSHOT_ONLY"},
         {"ms.publish.mode": "replace"}, False),
        ({"ms__publish__mode": "replace"}, {"ms.publish.mode": "append"}, False),
        ({"mode": "merge", "ms__publish__mode": "${mode}"}, {"mode": "replace"}, True),
        ({"mode": "merge", "how": "${mode}", "ms__publish__mode": "${how}"}, {"mode": "replace"},
         True),
        ({"mode": "replace", "ms__publish__mode": "${mode}"}, {"mode": "replace"}, False),
        ({"mode": "replace", "ms__publish__mode": "${mode}"}, {"ms.publish.mode": "replace"},
         False),
    ],
)  # fmt: skip
def test_a_replace_is_of_one_run_if_only_flags_ask_for_it(
    written: dict[str, str], flags: dict[str, str], is_once: bool, tmp_path: Path
) -> None:
    keys = {"extract__primary__key__fields": "id,unit", "extract__delta__fields": "updated_ms"}
    path = write_job(tmp_path, "http://localhost", **keys, **written)
    job = config.load(path, overrides=flags, environ={}).job
    assert job.publishing.replaces_once is is_once


def test_a_failed_work_unit_without_rows_stays_failed(story: Story) -> None:
    policy = {"job__commit__policy": "successful"}
    story.source.faults.append(failing(0, "b"))
    story.run(day(2), story.job(**policy))
    story.source.faults.clear()

    story.run(day(2), once(story, policy, ms__watermark=watermark("a")))

    failed = {name for name, each in story.states().items() if each.status == "FAILED"}
    assert failed == {work_unit(0, "b")}
    story.run(day(2), story.job(**policy))
    assert story.rows() == ids_of("a", "b", days=range(2))


@pytest.mark.parametrize("block", [0, 1], ids=["before the run", "between its blocks"])
def test_a_rewind_over_a_replace_of_one_run_lets_the_next_run_read_what_is_missing(
    story: Story, block: int
) -> None:
    story.run(day(2))
    before = story.head()
    assert before is not None
    story.run(day(2), once(story, {}, ms__watermark=watermark("a")))
    to = int(before["sequenceNumber"]) + block
    with story.store() as store:
        known = {entry.signature for entry in store.unit_entries(as_of=to)}
    read_twice = {work_unit(0, "a"), work_unit(1, "a")}
    assert (known == read_twice) is bool(block)
    story.job()

    now = ("--now", "2020-01-03T00:00:00Z")
    assert command(story, "state", "rewind", "--to", str(to), "--withdraw-files", *now) == 0
    story.run(day(3))

    assert story.rows() == ids_of("a", "b", days=range(3))


EVENTS = {
    "ms__event__column": "updated_ms",
    "ms__event__watermark": "fixed_delay",
    "ms__event__delay": "PT1H",
    "ms__late__action": "drop",
}


@pytest.mark.parametrize("changes", [{}, EVENTS], ids=["plain", "late rows dropped"])
def test_a_replace_whose_record_is_damaged_forgets_when_it_is_given_up_after_it_landed(
    story: Story, changes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = watermark(end="2020-01-02")
    story.run(day(2), story.job(**changes))
    with monkeypatch.context() as patch:
        patch.setattr("dil.run.commit.append", killed)
        with pytest.raises(KilledError):
            story.run(day(2), once(story, changes, ms__watermark=narrow))
    (path,) = (story.folder / "state").glob("state.db")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE intent SET payload = 'damaged'")

    assert command(story, "runs", "abandon") == 1
    flags = ("-D", "ms.publish.mode=replace", "-D", f"ms.watermark={narrow}")
    assert command(story, "runs", "abandon", *flags) == 0

    assert story.rows() == ids_of("a", "b", days=range(1))
    assert story.states().keys() == {work_unit(0, "a"), work_unit(0, "b")}
    story.run(day(3), story.job(**changes))
    assert story.rows() == ids_of("a", "b", days=range(3))


SERVERS = [pytest.param(name, marks=pytest.mark.long) for name in ("postgresql", "mysql")]


@pytest.mark.parametrize("kind", [*FORMATS, "sqlite", "duckdb", *SERVERS])
def test_tables_and_databases_keep_the_rule(
    kind: str, tmp_path: Path, source: HttpServer, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    if kind in FORMATS:
        story = Story(folder, source, ms__table__format=kind)
        found = _replaced_once_and_read_again(story, lambda: ids(rows_of(kind, folder)))
    else:
        with new_warehouse(kind, folder, request) as made:
            story = Story(folder, source, ms__warehouse__url=made.url)
            query = f"SELECT unit, id FROM {made.prefix}orders"
            found = _replaced_once_and_read_again(story, lambda: Counter(made.rows(query)))
    assert found == ids_of("a", "b", days=range(4))


def _replaced_once_and_read_again(
    story: Story, rows: Callable[[], Counter[tuple[str, int]]]
) -> Counter[tuple[str, int]]:
    changes = {"ms__publish__mode": "append"}
    story.run(day(3), story.job(**changes))
    report = story.run(day(2), once(story, changes, ms__watermark=watermark("a")))
    assert [note for note in report.notes if note.startswith("FORGOT 4 work units")]
    assert rows() == ids_of("a", days=range(2))
    story.run(day(4), story.job(**changes))
    return rows()


@pytest.mark.parametrize("mode", MODES)
def test_replaces_of_one_run_and_then_a_whole_run_give_the_rows_of_the_source(
    mode: str, tmp_path: Path, source: HttpServer
) -> None:
    for seed in range(3):
        random = Random(f"{mode} {seed}")
        partition = random.choice(("daily", "daily", "monthly", "none"))
        changes = {
            **MODES[mode],
            "ms__work__unit__partition": partition,
            "job__commit__policy": random.choice(("full", "successful")),
        }
        story = Story(tmp_path / str(seed), source)
        told = [f"{mode}, seed {seed}, {partition}"]
        now = 1
        for _ in range(5):
            now = min(now + random.choice((0, 1, 1, 2)), LAST_DAY - 1)
            kind = random.choice(("ordinary", "whole", "units", "begin", "end", "earlier"))
            at, flags = now, {}
            if kind == "units":
                flags["ms__watermark"] = watermark(random.choice("ab"))
            elif kind == "begin" and partition == "daily":
                flags["ms__watermark"] = watermark(begin=f"2020-01-0{random.randint(1, now)}")
            elif kind == "end":
                flags["ms__watermark"] = watermark(end=f"2020-01-0{random.randint(2, now + 1)}")
            elif kind == "earlier":
                at = random.randint(1, now)
            job = story.job(**changes) if kind == "ordinary" else once(story, changes, **flags)
            told.append(f"{kind} {flags} at {at}")
            foreseen = forgotten_of_plan(story, job, day(at))
            report = story.run(day(at), job)
            assert report.status in (RunStatus.SUCCESS, RunStatus.NOTHING_DUE), told
            named = [note for note in report.notes if note.startswith("FORGOT")]
            assert bool(foreseen) == bool(named), told
        story.run(day(LAST_DAY), story.job(**changes))
        expected = ids_of("a", "b", days=range(LAST_DAY))
        found = story.rows()
        assert found - expected == Counter(), f"doubled: {told}"
        assert expected - found == Counter(), f"lost: {told}"
        with story.store() as store:
            assert verify_chain(store).problems == ()


def forgotten_of_plan(story: Story, job: Job, now: int) -> tuple[str, ...]:
    """Return the work units that ``dil plan`` says the run would forget."""
    with story.store() as store:
        plan = plan_job(job, now_ms=now).plan
        return tuple(each.signature for each in forgotten_by_plan(job, store, plan))


@pytest.mark.parametrize("partition", ["daily", "none"])
def test_rows_that_a_replace_forgot_are_not_late_when_they_are_read_again(
    story: Story, partition: str
) -> None:
    changes = {**EVENTS, "ms__work__unit__partition": partition}
    story.run(day(5), story.job(**changes))
    story.run(day(3), once(story, changes))
    story.run(day(2), once(story, changes))
    assert story.rows() == ids_of("a", "b", days=range(2))

    story.run(day(6), story.job(**changes))

    assert story.rows() == ids_of("a", "b", days=range(6))
