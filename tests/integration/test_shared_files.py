"""Small work units share files: few files, the same rows, and each one can still be let go."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc

from dil.errors import ConfigError, StateError, WriteError
from dil.model.dataset import Intent, PublishedFile
from dil.model.work_unit import unit_hash
from dil.operator.amendments import (
    FileDecision,
    Selection,
    apply,
    open_session,
    propose_forget,
    propose_rewind,
    propose_undo,
)
from dil.operator.compaction import CompactionRequest, compact
from dil.operator.run_history import finish_publish, recorded_publish
from dil.publishing.destination import destination_for
from dil.run.lease import leased
from dil.state.work_units.signatures import encoded
from dil.storage import LocalFilesystem
from tests.jobs import dataset, published_ids, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, failing, ids_of, work_unit
from tests.table_readers import ids, rows_of

DAYS = 8
SHARED = {"ms__output__file__per__work__unit": "false"}
TABLES = {
    "delta": {"ms__table__format": "delta", "ms__publish__mode": "append"},
    "iceberg": {"ms__table__format": "iceberg", "ms__publish__mode": "append"},
}


@pytest.fixture
def source():
    with HttpServer(Dataset.generate(DAYS * 4, units=("a", "b"), step_ms=STEP_MS)) as server:
        yield server


@pytest.fixture
def story(tmp_path, source):
    return Story(tmp_path, source, **SHARED)


def live(story: Story) -> tuple[PublishedFile, ...]:
    return destination_for(story.job().publishing, LocalFilesystem()).live()


def whose(file: PublishedFile) -> dict[str, list[tuple[str, int]]]:
    """Return the rows of each work unit, as the manifest tells where they are."""
    rows = pq.ParquetFile(file.uri.removeprefix("file://")).read(["unit", "id"]).to_pylist()
    return {
        signature: [(row["unit"], row["id"]) for row in rows[start : start + count]]
        for signature, start, count in (
            (each.signature, each.start, each.rows) for each in file.unit_rows
        )
    }


def expected_of(number: int, unit: str) -> list[tuple[str, int]]:
    return sorted(ids_of(unit, days=range(number, number + 1)))


def acting(story: Story, propose):
    """Do what ``propose`` makes of a session."""
    with (
        story.store() as store,
        open_session(
            story.job(), store, "act", now_ms=day(6), clock=lambda: story.clock
        ) as session,
    ):
        return apply(session, propose(session))


def forget(story: Story, *units: tuple[int, str], decision=FileDecision.WITHDRAW):
    wanted = Selection(signatures=frozenset(encoded(work_unit(*unit)) for unit in units))
    return acting(story, lambda session: propose_forget(session, wanted, decision))


def test_the_work_units_of_a_run_share_a_file_and_the_manifest_tells_whose_rows_are_where(story):
    report = story.run(day(4))

    (file,) = live(story)
    assert len(visible_files(story.folder)) == len(report.files) == 1
    assert (report.rows, report.bytes) == (file.rows, file.bytes)
    assert story.rows() == ids_of("a", "b", days=range(4))
    assert file.signature == ""
    assert whose(file) == {
        work_unit(number, unit): expected_of(number, unit) for number in range(4) for unit in "ab"
    }
    assert sum(each.rows for each in file.units) == file.rows == 32
    assert (story.manifest()["format"], story.staged()) == (2, [])
    assert story.run(day(4)).status.value == "nothing_due"
    story.run(day(6))
    assert len(live(story)) == 2
    assert story.rows() == ids_of("a", "b", days=range(6))


def test_a_file_per_work_unit_is_the_default_and_its_manifest_is_as_before(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(2))
    assert len(live(story)) == 4
    assert story.manifest()["format"] == 1


@pytest.mark.parametrize("form", ["AVRO", "ORC", "JSON", "CSV"])
def test_files_of_every_format_are_shared(form, tmp_path, source):
    apart, shared = (
        Story(tmp_path / name, source, writer__output__format=form, **changes)
        for name, changes in (("apart", {}), ("shared", SHARED))
    )
    apart.run(day(3))
    shared.run(day(3))

    (file,) = visible_files(shared.folder)
    each = [
        Path(one.uri.removeprefix("file://"))
        for one in sorted(live(apart), key=lambda one: one.signature)
    ]
    assert len(each) == 6
    assert sorted(map(str, records(file))) == sorted(
        str(row) for one in each for row in records(one)
    )
    forget(shared, (1, "a"))
    shared.run(day(3))
    found = [row for one in visible_files(shared.folder) for row in records(one)]
    assert Counter((row["unit"], row["id"]) for row in found) == ids_of("a", "b", days=range(3))


def records(file: Path):
    match file.suffix:
        case ".avro":
            with file.open("rb") as stream:
                return list(fastavro.reader(stream))
        case ".orc":
            return orc.read_table(file).to_pylist()
        case ".json":
            return [json.loads(line) for line in file.read_text().splitlines()]
        case _:
            return csv.read_csv(file).to_pylist()


def test_folders_of_values_and_of_timelabels_stay_apart(tmp_path, source):
    story = Story(tmp_path, source, ms__table__partition__fields="unit", **SHARED)
    story.run(day(3))
    assert [path.parent.name for path in visible_files(tmp_path)] == ["unit=a", "unit=b"]

    labels = Story(
        tmp_path / "labels",
        source,
        ms__publish__layout="timelabel",
        ms__timelabel__schedule="@daily",
        **SHARED,
    )
    labels.run(day(3))
    files = live(labels)
    assert len(files) == len({file.timelabel for file in files}) == 3
    assert published_ids(visible_files(labels.folder)) == ids_of("a", "b", days=range(3))


def test_large_files_stay_as_they_are_and_a_shared_one_grows_to_the_target(tmp_path, source):
    story = Story(tmp_path, source)
    story.run(day(4))
    size = max(file.bytes for file in live(story))
    for target, files in ((size, 8), (2 * size + 2, 4), (4 * size + 4, 2)):
        other = Story(
            tmp_path / str(target), source, ms__writer__target__bytes=str(target), **SHARED
        )
        other.run(day(4))
        assert len(live(other)) == files
        assert other.rows() == ids_of("a", "b", days=range(4))


@pytest.mark.parametrize("form", TABLES)
def test_tables_get_shared_files_and_let_work_units_go(form, tmp_path, source):
    story = Story(tmp_path, source, **TABLES[form], **SHARED)
    story.run(day(3))
    assert len(live(story)) == 1
    assert ids(rows_of(form, tmp_path)) == ids_of("a", "b", days=range(3))

    forget(story, (0, "a"), (2, "b"))
    rest = (
        ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1)) - ids_of("b", days=range(2, 3))
    )
    assert ids(rows_of(form, tmp_path)) == rest
    acting(story, propose_undo)
    assert ids(rows_of(form, tmp_path)) == ids_of("a", "b", days=range(3))
    acting(story, propose_undo)
    assert ids(rows_of(form, tmp_path)) == rest
    story.run(day(4))
    assert ids(rows_of(form, tmp_path)) == ids_of("a", "b", days=range(4))
    story.head()


def test_a_replace_takes_shared_files_away_and_brings_new_ones(tmp_path, source):
    story = Story(tmp_path, source, ms__publish__mode="replace", **SHARED)
    for number in (2, 4):
        story.run(day(number))
        assert len(live(story)) == 1
        assert story.rows() == ids_of("a", "b", days=range(number))


def test_a_work_unit_is_withdrawn_from_a_shared_file_and_read_again(story):
    story.run(day(3))
    (before,) = live(story)
    rows = whose(before)
    del rows[work_unit(1, "a")]

    forget(story, (1, "a"))

    (rest,) = live(story)
    assert rest.uri != before.uri
    assert whose(rest) == rows
    assert story.rows() == ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1, 2))
    assert story.run(day(3)).units.planned == 1
    assert story.rows() == ids_of("a", "b", days=range(3))
    story.head()


def test_withdrawing_all_work_units_of_a_file_writes_nothing_anew(story):
    story.run(day(1))
    forget(story, (0, "a"), (0, "b"))
    assert live(story) == ()
    acting(story, propose_undo)
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_undo_brings_the_file_back_as_it_was_and_takes_it_out_again(story):
    story.run(day(3))
    before = live(story)
    forget(story, (1, "a"))
    without = story.rows()
    acting(story, propose_undo)
    assert live(story) == before
    assert story.rows() == ids_of("a", "b", days=range(3))
    acting(story, propose_undo)
    assert story.rows() == without
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_an_operator_must_decide_about_rows_in_shared_files_as_about_others(story):
    story.run(day(3))
    with pytest.raises(StateError, match="1 file of these work units with 4 rows would stay"):
        forget(story, (1, "a"), decision=FileDecision.UNDECIDED)


def test_a_rewind_takes_out_what_runs_brought_since_and_reads_it_again(story):
    story.run(day(2))
    sequence = int(story.head()["sequenceNumber"])
    story.run(day(4))
    forget(story, (0, "b"))
    acting(story, lambda session: propose_rewind(session, sequence, FileDecision.WITHDRAW))
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))
    acting(story, lambda session: propose_rewind(session, 0, FileDecision.WITHDRAW))
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_work_units_that_failed_are_read_later_and_those_of_a_failed_run_are_adopted(story, source):
    source.faults.append(failing(1, "b"))
    story.changes["job__commit__policy"] = "successful"
    assert story.run(day(2)).status.value == "partial"
    assert story.rows() == ids_of("a", "b", days=range(2)) - ids_of("b", days=range(1, 2))
    source.faults.clear()
    story.run(day(2))
    assert story.rows() == ids_of("a", "b", days=range(2))

    story.changes["job__commit__policy"] = "full"
    source.faults.append(failing(3, "a"))
    assert story.run(day(4)).status.value == "failed"
    source.faults.clear()
    report = story.run(day(4))
    assert report.units.adopted == 3
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_staged_work_is_adopted_whatever_the_switch_says_by_then(story, source):
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).status.value == "failed"
    source.faults.clear()
    story.changes.pop("ms__output__file__per__work__unit")
    assert story.run(day(2)).units.adopted == 3
    assert len(live(story)) == 4
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_grace_period_that_reads_again_appends_another_version(story):
    story.changes["ms__grace__period__days"] = "1"
    story.run(day(2))
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3)) + ids_of("a", "b", days=range(1, 2))


def test_columns_that_only_some_work_units_have_are_null_in_the_others(tmp_path, source):
    story = Story(tmp_path, source, ms__output__schema="", **SHARED)
    source.dataset.units["b"].encoded[:] = [
        row.replace(b'"note"', b'"remark"') for row in source.dataset.units["b"].encoded
    ]
    story.run(day(2))
    (file,) = visible_files(tmp_path)
    table = pq.read_table(file)
    assert {"note", "remark"} <= set(table.column_names)
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_compaction_keeps_whose_rows_are_where(story):
    for number in (1, 2, 3):
        story.run(day(number))
    assert len(live(story)) == 3
    compact(story.job(), CompactionRequest(clock=lambda: story.clock))
    (file,) = live(story)
    assert whose(file) == {
        work_unit(number, unit): expected_of(number, unit) for number in range(3) for unit in "ab"
    }
    forget(story, (1, "a"))
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def crashed(story: Story, monkeypatch, act) -> Intent:
    """Let an act die when its intent is on record; return the intent."""

    def refused(*_):
        raise WriteError("the disk is gone")

    with monkeypatch.context() as patch, suppress(WriteError):
        patch.setattr("dil.publishing.publisher.Publisher.carry_out", refused)
        act()
    with story.store() as store:
        intent = store.pending_intent()
        assert intent is not None
        return intent


def finish_without_lost(story: Story, intent: Intent, word: str) -> None:
    """Lose the staged file whose final name has a word in it, and finish the publish without it."""
    (lost,) = [move for move in intent.commit.moves if word in move.target.uri]
    Path(lost.source).unlink()
    job = story.job()
    with story.store() as store:
        begun = recorded_publish(job, store)
        assert begun is not None
        assert len(begun.lost) == 1
        with leased(job, store, "finish", lambda: story.clock) as lease:
            finish_publish(job, store, lease, begun)


def test_a_run_that_lost_its_shared_file_counts_all_its_work_units_as_failed(story, monkeypatch):
    story.run(day(1))
    intent = crashed(story, monkeypatch, lambda: story.run(day(3)))
    finish_without_lost(story, intent, "-shared-")
    assert story.rows() == ids_of("a", "b", days=range(1))
    statuses = Counter(state.status for state in story.states().values())
    assert statuses == {"COMMITTED": 2, "FAILED": 4}
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))
    story.head()


def test_an_act_that_lost_what_was_to_stay_is_given_up_and_no_row_is_gone(story, monkeypatch):
    story.run(day(2))
    before = live(story)
    intent = crashed(story, monkeypatch, lambda: forget(story, (1, "a")))
    finish_without_lost(story, intent, "-shared-")
    assert live(story) == before
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert story.run(day(2)).status.value == "nothing_due"


@pytest.mark.parametrize("word", ["-shared-", "the new reading"])
def test_a_reading_that_lost_a_file_leaves_the_shared_one_as_it_was(
    word, tmp_path, source, monkeypatch
):
    story = Story(tmp_path, source, ms__publish__mode="window_replace")
    story.run(day(4))
    compact(story.job(), CompactionRequest(clock=lambda: story.clock))
    before = live(story)
    forget(story, (0, "b"), decision=FileDecision.KEEP)
    intent = crashed(story, monkeypatch, lambda: story.run(day(4)))
    lost = f"-{unit_hash(work_unit(0, 'b'))}-" if word == "the new reading" else word
    finish_without_lost(story, intent, lost)
    assert live(story) == before
    assert story.rows() == ids_of("a", "b", days=range(4))
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))
    assert len(live(story)) == len(before) + 1


REFUSED = {
    "window_replace": (
        {"ms__publish__mode": "window_replace"},
        "ms.publish.mode is window_replace",
    ),
    "merge": (
        {"ms__publish__mode": "merge", "extract__primary__key__fields": "id"},
        "ms.publish.mode is merge",
    ),
    "a warehouse": ({"ms__warehouse__url": "sqlite:///orders.db"}, "ms.warehouse.url is set"),
    "a backfill": ({"ms__backfill": "true"}, "ms.backfill is true"),
    "a dump": (
        {"ms__extractor__class": "FileDumpExtractor", "ms__extractor__target__file__name": "x"},
        "dumped as they are",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_where_files_cannot_be_shared_the_configuration_says_so(case, tmp_path, source):
    changes, words = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        Story(tmp_path, source, **{**SHARED, **changes}).job()
    problems = [
        each for each in caught.value.problems if each.key == "ms.output.file.per.work.unit"
    ]
    assert len(problems) == 1
    assert words in problems[0].what
    assert problems[0].fix
    assert problems[0].origin.line


def test_the_windows_of_window_replace_are_put_together_and_read_again_one_by_one(tmp_path, source):
    story = Story(tmp_path, source, ms__publish__mode="window_replace", ms__grace__period__days="2")
    story.run(day(5))
    assert len(live(story)) == 10
    outcome = compact(story.job(), CompactionRequest(clock=lambda: story.clock))

    # The last windows are read again, so they have files of their own.
    assert len(outcome.added) == 1
    assert outcome.removed == 4
    assert "may read again" in " ".join(outcome.plan.notes)
    (shared,) = [file for file in live(story) if file.units]
    story.run(day(6))
    assert story.rows() == ids_of("a", "b", days=range(6))
    assert shared in live(story)

    # One of the windows is read again: it leaves the file in the same commit.
    forget(story, (0, "b"), decision=FileDecision.KEEP)
    report = story.run(day(6))
    assert report.status.value == "success"
    assert story.rows() == ids_of("a", "b", days=range(6))
    (rest,) = [file for file in live(story) if file.units]
    assert rest.signatures == shared.signatures - {work_unit(0, "b")}
    assert shared not in live(story)
    assert {file.signature for file in live(story)} >= {work_unit(0, "b")}
    story.head()
    # With what is left of it.
    forget(story, *((n, u) for n in range(2) for u in "ab"), decision=FileDecision.KEEP)
    story.run(day(6))
    assert story.rows() == ids_of("a", "b", days=range(6))
    assert not [file for file in live(story) if file.units]


def test_a_shared_file_that_no_manifest_lists_stops_a_replacing_run(tmp_path, source):
    story = Story(tmp_path, source, ms__publish__mode="window_replace")
    story.run(day(4))
    compact(story.job(), CompactionRequest(clock=lambda: story.clock))
    forget(story, (0, "b"), decision=FileDecision.KEEP)
    files = visible_files(tmp_path)
    for path in (dataset(tmp_path) / "_dil").glob("*.json"):
        if path.name != "owner.json":
            path.unlink()
    report = story.run(day(4))
    (failure,) = report.failures
    assert (failure.signature, failure.code) == (None, "DIL-STATE")
    assert "no manifest of the dataset says" in failure.error
    assert visible_files(tmp_path) == files


def test_no_hidden_file_of_sharing_is_left(story):
    story.run(day(2))
    forget(story, (1, "a"))
    folders = list((dataset(story.folder) / "_dil").rglob("rest-*"))
    assert folders == []
    assert story.staged() == []
