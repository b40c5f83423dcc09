"""``dil compact``: fewer files, the same rows, and what may not be put together stays apart."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dil.cli.compact import compact as compact_command
from dil.errors import ConfigError, ConversionError, LeaseHeldError, StateError
from dil.operator.compaction import CompactionRequest, compact
from dil.publishing.layout import sending_dir
from dil.publishing.manifest import live_files
from dil.publishing.shared_files import refuse_window_replace
from dil.state.blocks.verification import verify_chain
from dil.storage import LocalFilesystem
from tests.jobs import dataset, properties, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, failing, ids_of, work_unit

DAYS = 6


@pytest.fixture
def source():
    with HttpServer(Dataset.generate(DAYS * 4, units=("a", "b"), step_ms=STEP_MS)) as server:
        yield server


def compacted(story, job=None, **wish):
    return compact(job or story.job(), CompactionRequest(clock=lambda: story.clock, **wish))


def live(story):
    return live_files(LocalFilesystem(), str(dataset(story.folder)))


def test_small_files_of_a_dataset_become_one_with_every_row_in_its_order(tmp_path, source):
    story = Story(tmp_path, source)
    for number in (2, 4):
        story.run(day(number))
    before = [row for file in live(story) for row in pq.read_table(file.uri[7:]).to_pylist()]
    assert len(visible_files(tmp_path)) == 8

    outcome = compacted(story)

    (file,) = visible_files(tmp_path)
    assert pq.read_table(file).to_pylist() == before
    assert story.rows() == ids_of("a", "b", days=range(4))
    assert (len(outcome.added), outcome.removed) == (1, 8)
    assert [each.signature for each in live(story)[0].units] == [
        work_unit(number, unit) for number in range(4) for unit in "ab"
    ]
    assert not (tmp_path / "lake" / "_staging" / "orders").exists()


def test_the_chain_says_what_was_taken_out_and_added_and_nothing_becomes_due(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(3))
    states = story.states()
    outcome = compacted(story)

    head = story.head()["event"]
    assert [part["path"] for part in head["newData"]["parts"]] == [outcome.added[0].uri]
    assert len(head["newData"]["removes"]) == 6
    with story.store() as store:
        reset = next(store.blocks_of_kind("ResetState"))["event"]
        assert verify_chain(store).problems == ()
    assert reset["act"] == "compact"
    assert story.states() == states
    assert story.run(day(3)).status.value == "nothing_due"
    story.run(day(5))
    assert story.rows() == ids_of("a", "b", days=range(5))


def test_work_units_that_window_replace_reads_again_keep_files_of_their_own(tmp_path, source):
    story = Story(
        tmp_path,
        source,
        ms__publish__mode="window_replace",
        ms__grace__period__days="2",
        ms__parameters=properties(tmp_path, "")["ms.parameters"].replace("100", "1"),
    )
    story.run(day(3))
    outcome = compacted(story, target_bytes=1 << 20, is_dry_run=True)
    assert outcome.plan.groups == ()
    assert "are joined only with each other" in " ".join(outcome.plan.notes)

    job = story.job()
    cut = replace(job, writing=replace(job.writing, row_group_rows=1, target_bytes=100))
    story.run(day(4), cut)
    many = len(live(story))

    compacted(story)

    assert len(live(story)) < many
    again = {work_unit(number, unit) for number in (1, 2, 3) for unit in "ab"}
    assert {file.signature for file in live(story)} == {"", *again}
    assert not any(file.has_unknown_units for file in live(story))
    # The work units are read again, and their files are found.
    story.run(day(5))
    assert story.rows() == ids_of("a", "b", days=range(5))


def test_rows_that_were_put_together_are_merged_as_before(tmp_path, source):
    story = Story(
        tmp_path,
        source,
        ms__publish__mode="merge",
        ms__grace__period__days="2",
        extract__primary__key__fields="unit,id",
    )
    story.run(day(3))
    compacted(story)
    assert len(visible_files(tmp_path)) == 1
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))
    compacted(story)
    story.run(day(5))
    assert story.rows() == ids_of("a", "b", days=range(5))


def test_folders_and_timelabels_stay_apart(tmp_path, source):
    story = Story(
        tmp_path,
        source,
        ms__publish__layout="timelabel",
        ms__timelabel__schedule="@daily",
        ms__table__partition__fields="unit",
    )
    story.run(day(2))
    story.run(day(4))
    folders = Counter(path.parent for path in visible_files(tmp_path))
    assert set(folders.values()) == {1}
    outcome = compacted(story)
    assert outcome.plan.groups == ()
    assert "8 small files; only files of one timelabel" in outcome.plan.notes[0]

    again = Story(tmp_path / "again", source, ms__table__partition__fields="unit")
    again.run(day(2))
    again.run(day(4))
    compacted(again)
    found = [path.parent.name for path in visible_files(tmp_path / "again")]
    assert found == ["unit=a", "unit=b"]


def test_a_budget_leaves_the_rest_for_the_next_time(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(6))
    size = max(file.bytes for file in live(story))
    target = 2 * size + 2
    look = compacted(story, target_bytes=target, is_dry_run=True).plan.groups[0].bytes
    exact = compacted(story, target_bytes=target, is_dry_run=True, max_bytes=look)
    assert (len(exact.plan.groups), exact.plan.left) == (1, 5)
    first = compacted(story, target_bytes=target, max_bytes=4 * size)
    assert (len(first.plan.groups), first.plan.left) == (2, 4)
    second = compacted(story, target_bytes=target)
    assert (len(second.plan.groups), second.plan.left) == (4, 0)
    assert compacted(story, target_bytes=target).plan.groups == ()
    assert story.rows() == ids_of("a", "b", days=range(6))


def test_many_files_take_several_commits(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(6))
    size = max(file.bytes for file in live(story))
    outcome = compacted(story, target_bytes=2 * size + 2, files_per_commit=4)
    assert len({file.run_id for file in outcome.added}) == 3
    assert story.rows() == ids_of("a", "b", days=range(6))
    assert verify(story)


def verify(story):
    with story.store() as store:
        return verify_chain(store).problems == ()


def test_a_column_that_came_later_is_null_in_the_rows_before(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(2), story.job(ms__output__schema=columns("id", "unit")))
    story.run(day(4), story.job(ms__output__schema=columns("id", "unit", "amount")))
    compacted(story)
    (file,) = visible_files(tmp_path)
    table = pq.read_table(file)
    assert table.column_names == ["id", "unit", "amount"]
    assert table["amount"].null_count == 16
    assert story.rows() == ids_of("a", "b", days=range(4))


def columns(*names):
    kinds = {"id": "long", "unit": "string", "amount": "double"}
    return json.dumps(
        [{"columnName": n, "isNullable": True, "dataType": {"type": kinds[n]}} for n in names]
    )


@pytest.mark.parametrize("form", ["AVRO", "ORC", "JSON", "CSV"])
def test_every_format_can_be_put_together(form, tmp_path, source):
    story = Story(tmp_path, source, writer__output__format=form)
    story.run(day(2))
    story.run(day(4))
    before = [row for file in live(story) for row in records(Path(file.uri[7:]))]
    compacted(story)
    (file,) = visible_files(tmp_path)
    assert records(file) == before
    assert (Counter(rows(file)), file.suffix) == (
        ids_of("a", "b", days=range(4)),
        f".{form.lower()}",
    )


def rows(file: Path):
    return [(row["unit"], row["id"]) for row in records(file)]


def records(file: Path):
    match file.suffix:
        case ".avro":
            with file.open("rb") as stream:
                found = list(fastavro.reader(stream))
        case ".orc":
            from pyarrow import orc

            found = orc.read_table(file).to_pylist()
        case ".json":
            found = [json.loads(line) for line in file.read_text().splitlines()]
        case _:
            from pyarrow import csv

            found = csv.read_csv(file).to_pylist()
    return found


def test_files_of_another_job_stay_as_they_are(tmp_path, source):
    lake = str(tmp_path / "lake")
    north, south = (
        Story(tmp_path / name, source, data__publisher__final__dir=lake, job__name=name)
        for name in ("north", "south")
    )
    north.run(day(2))
    south.run(day(3), run_id="run-s1")
    north.run(day(4))
    files, folder = LocalFilesystem(), f"{lake}/shop/orders"
    others = {file for file in live_files(files, folder) if file.run_id == "run-s1"}

    outcome = compacted(north)

    assert (outcome.removed, len(others)) == (8, 6)
    assert others < set(live_files(files, folder))


def test_a_look_changes_nothing_and_needs_no_lease(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(3))
    before = visible_files(tmp_path)
    with story.store() as store:
        lease = store.acquire_lease("somebody", lease_s=3600)
        outcome = compacted(story, is_dry_run=True)
        assert outcome.plan.files == 6
        with pytest.raises(LeaseHeldError):
            compacted(story)
        store.release_lease(lease)
    assert visible_files(tmp_path) == before


def test_work_of_a_crashed_run_is_published_first(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(2))
    source.faults.append(failing(2, "b"))
    assert story.run(day(3)).status.value == "failed"
    with pytest.raises(StateError, match="wait in staging"):
        compacted(story)
    source.faults.clear()
    story.run(day(3))
    compacted(story)
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_publish_that_was_killed_is_finished_first(tmp_path, source, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    story = Story(tmp_path, source)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", killed)
        assert story.run(day(2), run_id="run-1").is_interrupted
    assert live(story) == ()

    assert compacted(story).finished == "run-1"
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_markers_of_rows_that_may_have_been_sent_stay(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(2))
    job = story.job()
    marker = Path(sending_dir(job.publishing, job.name)) / "unit.json"
    marker.parent.mkdir(parents=True)
    marker.write_text("{}")
    assert compacted(story).removed
    assert marker.exists()


def test_a_file_with_other_rows_than_were_published_is_left_alone(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(3))
    spoilt = visible_files(tmp_path)[0]
    pq.write_table(pq.read_table(spoilt).slice(1), spoilt)
    before = visible_files(tmp_path)
    with pytest.raises(ConversionError, match="3 rows, and 4 were published"):
        compacted(story)
    assert visible_files(tmp_path) == before
    with story.store() as store:
        assert store.pending_intent() is None


def test_what_cannot_be_compacted_is_refused(tmp_path, source):
    story = Story(tmp_path, source)
    job = story.job(state__store__enabled="false")
    with pytest.raises(ConfigError, match="keep state"):
        compacted(story, job)
    with pytest.raises(ConfigError, match="--vacuum-hours"):
        compacted(story, story.job(), vacuum_hours=1)


def test_a_mode_that_looks_for_work_units_is_refused_where_rows_are_mixed(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(3))
    compacted(story)
    spec = story.job().publishing
    window = story.job(ms__publish__mode="window_replace").publishing
    refuse_window_replace(window, live(story))
    story.drop_units()
    refuse_window_replace(spec, live(story))
    with pytest.raises(ConfigError, match="several work units"):
        refuse_window_replace(window, live(story))


def test_the_command_tells_what_it_does(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(3))
    file = str(tmp_path / "orders.conf")
    look = CliRunner().invoke(compact_command, [file, "--dry-run"], standalone_mode=False)
    assert "6 small files" in look.output
    assert look.output.endswith("nothing was changed\n")
    done = CliRunner().invoke(compact_command, [file, "--json"], standalone_mode=False)
    told = json.loads(done.stdout)
    assert (told["small"], told["removed"], len(told["added"])) == (6, 6, 1)
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert work_unit(0, "a") not in done.stdout
