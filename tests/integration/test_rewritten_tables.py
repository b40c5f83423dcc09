"""Another program writes a table's files anew: what is read again is refused, never doubled."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace
from pyiceberg.io.pyarrow import parquet_file_to_data_file

from dil.cli.main import main
from dil.errors import StateError
from dil.model.dataset import PublishedFile
from dil.operator.amendments import FileDecision, Selection, apply, open_session, propose_forget
from dil.operator.backfill.publication import RowDecision
from dil.operator.compaction import CompactionRequest, compact
from dil.publishing.rewritten import rewritten_units
from dil.run import publish
from dil.spi.state_store import StateStore
from dil.state.work_units.signatures import encoded
from dil.storage import LocalFilesystem
from tests.backfills import Backfills
from tests.jobs import dataset, published_ids, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, ids_of, work_unit
from tests.table_readers import FORMATS, iceberg_table, ids, rows_of

WINDOW = {"ms__publish__mode": "window_replace"}
APPEND = {"ms__publish__mode": "append"}


@pytest.fixture
def source():
    with HttpServer(Dataset.generate(8 * 4, units=("a", "b"), step_ms=STEP_MS)) as server:
        yield server


class Table(Story):
    """A job that publishes to a table, to which another program writes, too."""

    def __init__(self, folder: Path, source: HttpServer, kind: str, **changes: str) -> None:
        super().__init__(folder, source, ms__table__format=kind, **changes)
        self.kind = kind

    def rows(self):
        return ids(rows_of(self.kind, self.folder))

    def optimize(self) -> None:
        """Put all files together, as OPTIMIZE and rewrite_data_files do."""
        rows = rows_of(self.kind, self.folder)
        if self.kind == "delta":
            assert DeltaTable(dataset(self.folder)).optimize.compact()["numFilesRemoved"] > 1
            return
        table = iceberg_table(self.folder)
        path = dataset(self.folder) / "00000-0-5f3b9a2e-7c11-4ea7-9a0b-1d2c3e4f5a6b-00001.parquet"
        pq.write_table(rows, path)
        transaction = table.transaction()
        with transaction.update_snapshot().overwrite() as snapshot:
            for task in table.scan().plan_files():
                snapshot.delete_data_file(task.file)
            data = parquet_file_to_data_file(table.io, table.metadata, f"file://{path}")
            snapshot.append_data_file(data)
        transaction.commit_transaction()

    def append_elsewhere(self) -> None:
        """Add a row of another program."""
        rows = rows_of(self.kind, self.folder).slice(0, 1)
        rows = rows.set_column(rows.column_names.index("id"), "id", pa.array([999], pa.int64()))
        if self.kind == "delta":
            write_deltalake(dataset(self.folder), rows, mode="append")
        else:
            iceberg_table(self.folder).append(rows)

    def roll_back(self) -> None:
        """Let the table be as it was before its newest version."""
        if self.kind == "delta":
            table = DeltaTable(dataset(self.folder))
            table.restore(table.version() - 1)
            return
        table = iceberg_table(self.folder)
        newest = table.current_snapshot()
        table.manage_snapshots().rollback_to_snapshot(newest.parent_snapshot_id).commit()

    def forget(self, *units: tuple[int, str], decision: FileDecision) -> None:
        wanted = Selection(signatures=frozenset(encoded(work_unit(*unit)) for unit in units))
        with (
            self.store() as store,
            open_session(
                self.job(), store, "forget", now_ms=day(6), clock=lambda: self.clock
            ) as session,
        ):
            apply(session, propose_forget(session, wanted, decision))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_window_is_not_read_again_beside_its_rows_in_a_file_of_another_program(
    kind, tmp_path, source
):
    story = Table(tmp_path, source, kind, **WINDOW, ms__grace__period__days="1")
    story.run(day(3))
    story.optimize()
    asked = len(source.requests)

    with pytest.raises(StateError, match="may hold the rows of") as caught:
        story.run(day(4))

    assert "ms.publish.mode=replace" in caught.value.fix
    assert len(source.requests) == asked
    assert story.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("kind", FORMATS)
def test_both_ways_out_keep_every_row_once(kind, tmp_path, source):
    story = Table(tmp_path, source, kind, **WINDOW, ms__grace__period__days="1")
    story.run(day(3))
    story.optimize()
    story.roll_back()
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))

    story.optimize()
    assert story.run(day(5), story.job(ms__publish__mode="replace")).exit_code == 0
    assert story.rows() == ids_of("a", "b", days=range(5))
    # What the program took out is forgotten with it: its own rows stop no later run.
    story.append_elsewhere()
    story.forget((1, "a"), decision=FileDecision.KEEP)
    story.run(day(6))
    assert story.rows().total() == ids_of("a", "b", days=range(6)).total() + 1
    story.head()
    with story.store() as store:
        assert sorted(store.live_uris()) == sorted(StateStore.live_uris(store))


@pytest.mark.parametrize("kind", FORMATS)
def test_windows_that_were_never_read_are_published_and_earlier_ones_not_forgotten(
    kind, tmp_path, source
):
    story = Table(tmp_path, source, kind, **WINDOW)
    story.run(day(3))
    story.optimize()
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))

    # By now no manifest lists the files that are gone.
    story.forget((1, "a"), decision=FileDecision.KEEP)
    with pytest.raises(StateError, match="may hold the rows of"):
        story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))


@pytest.mark.parametrize("manifest", ["that lists it", "of a later run"])
@pytest.mark.parametrize("kind", FORMATS)
def test_rows_of_a_shared_file_are_looked_for_too(kind, manifest, tmp_path, source):
    story = Table(tmp_path, source, kind, **WINDOW)
    story.run(day(4))
    compact(story.job(), CompactionRequest(clock=lambda: story.clock))
    story.optimize()
    if manifest == "of a later run":
        story.run(day(5))
    before = story.rows()
    story.forget((1, "a"), decision=FileDecision.KEEP)

    with pytest.raises(StateError, match="may hold the rows of"):
        story.run(day(5))

    assert story.rows() == before


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_another_program_added_stop_nothing(kind, tmp_path, source):
    story = Table(tmp_path, source, kind, **WINDOW, ms__grace__period__days="1")
    story.run(day(3))
    story.append_elsewhere()
    story.run(day(4))
    assert story.rows().total() == ids_of("a", "b", days=range(4)).total() + 1


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_that_is_written_anew_while_a_run_reads_is_seen_before_it_publishes(
    kind, tmp_path, source, monkeypatch
):
    story = Table(tmp_path, source, kind, **WINDOW, ms__grace__period__days="1")
    story.run(day(3))
    plain = publish._target

    def written_anew(*arguments):
        story.optimize()
        return plain(*arguments)

    monkeypatch.setattr(publish, "_target", written_anew)
    report = story.run(day(4))

    assert "may hold the rows of" in report.failures[0].error
    assert story.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_lost_state_does_not_double_what_another_program_wrote_anew(kind, tmp_path, source):
    story = Table(tmp_path, source, kind, **WINDOW)
    story.run(day(3))
    story.optimize()
    for path in (tmp_path / "state").glob("state*"):
        path.unlink()

    with pytest.raises(StateError):
        story.run(day(3))
    with pytest.raises(StateError, match="may hold the rows of"):
        story.run(day(3), accept_new_signatures=True)

    assert story.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("kind", FORMATS)
def test_appended_rows_in_a_file_of_another_program_are_not_read_twice(kind, tmp_path, source):
    story = Table(tmp_path, source, kind, **APPEND)
    story.run(day(3))
    backfills = Backfills(story, 3)
    definition = backfills.take(range(1, 2))
    story.optimize()

    for decision in (FileDecision.UNDECIDED, FileDecision.WITHDRAW):
        with pytest.raises(StateError, match="may hold the rows of"):
            story.forget((1, "a"), decision=decision)
    with pytest.raises(StateError, match="may hold the rows of"):
        backfills.publish(definition, RowDecision.REPLACE)
    assert story.rows() == ids_of("a", "b", days=range(3))

    story.run(day(4))
    with pytest.raises(StateError, match="may hold the rows of"):
        backfills.publish(definition, RowDecision.REPLACE)
    backfills.publish(definition, RowDecision.APPEND)
    twice = ids_of("a", "b", days=range(1, 2))
    assert story.rows() == ids_of("a", "b", days=range(4)) + twice


def test_a_window_of_plain_files_that_another_program_wrote_anew_is_not_read_again(
    tmp_path, source
):
    story = Story(tmp_path, source, **WINDOW, ms__grace__period__days="1")
    story.run(day(3))
    before = visible_files(tmp_path)
    rows = pa.concat_tables(pq.read_table(path) for path in before)
    pq.write_table(rows, dataset(tmp_path) / "part-00000-9f0c2b1e-c000.snappy.parquet")
    kept = {path: path.read_bytes() for path in before}
    for path in before:
        path.unlink()

    report = story.run(day(4))

    assert "may hold the rows of" in report.failures[0].error
    assert len(visible_files(tmp_path)) == 1
    # What it advises works.
    for path, content in kept.items():
        path.write_bytes(content)
    (dataset(tmp_path) / "part-00000-9f0c2b1e-c000.snappy.parquet").unlink()
    assert story.run(day(4)).exit_code == 0
    assert story.rows() == ids_of("a", "b", days=range(4))


def brought_another_file(before: list[Path]) -> None:
    """Put the rows of files together in one of another program."""
    rows = pa.concat_tables(pq.read_table(path) for path in before)
    for path in before:
        path.unlink()
    pq.write_table(rows, before[0].parent / "part-00000-9f0c2b1e-c000.snappy.parquet")


def wrote_over_one(before: list[Path]) -> None:
    """Put the rows of files together in the last of them."""
    rows = pa.concat_tables(pq.read_table(path) for path in before)
    for path in before:
        path.unlink()
    pq.write_table(rows, before[-1])


@pytest.mark.parametrize("files", [(), ("--withdraw-files",)], ids=["undecided", "withdraw"])
@pytest.mark.parametrize("verb", ["forget", "rewind"])
@pytest.mark.parametrize("rewrite", [brought_another_file, wrote_over_one])
def test_appended_rows_in_plain_files_of_another_program_are_not_read_twice(
    rewrite, verb, files, tmp_path, source, capsys
):
    story = Story(tmp_path, source, **APPEND)
    story.run(day(3))
    before = visible_files(tmp_path)
    kept = {path: path.read_bytes() for path in before}
    rewrite(before)
    rows = published_ids(visible_files(tmp_path))
    options = {"forget": ("--signature", work_unit(1, "a")), "rewind": ("--to", "1")}[verb]

    # Also without --yes: the preview says that it is refused.
    act = ("state", verb, str(tmp_path / "orders.conf"), "--now", "2020-01-04T00:00:00Z", *options)
    assert main([*act, *files]) == 1
    assert main([*act, *files, "--yes"]) == 1

    said = capsys.readouterr().err
    assert "may hold the rows of [watermark.system." in said
    assert "Put the files back that are gone" in said
    story.run(day(3))
    assert published_ids(visible_files(tmp_path)) == rows
    # What it advises works.
    for path in visible_files(tmp_path):
        path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)
    assert main([*act, "--withdraw-files", "--yes"]) == 0
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_plain_file_that_another_job_appended_and_lost_stops_no_act(tmp_path, source, capsys):
    """Two jobs append to one dataset; their work units have the same signatures."""
    story = Story(tmp_path, source, **APPEND)
    story.run(day(3))
    mine = set(visible_files(tmp_path))
    Story(tmp_path, source, **APPEND, job__name="other").run(day(3))
    for path in {*visible_files(tmp_path)} - mine:
        path.unlink()
    pq.write_table(pa.table({"id": [999]}), dataset(tmp_path) / "part-00000-9f0c2b1e.parquet")
    story.job()

    options = (
        "--now",
        "2020-01-04T00:00:00Z",
        "--signature",
        work_unit(1, "a"),
        "--withdraw-files",
        "--yes",
    )
    assert main(["state", "forget", str(tmp_path / "orders.conf"), *options]) == 0

    assert "done in block" in capsys.readouterr().out


def test_a_plain_file_that_is_gone_is_read_again_where_no_other_came(tmp_path, source):
    story = Story(tmp_path, source, **WINDOW, ms__grace__period__days="1")
    story.run(day(3))
    (gone,) = [path for path in visible_files(tmp_path) if story_unit(story, path) == (2, "a")]
    gone.unlink()
    (dataset(tmp_path) / "README.md").write_text("what this is")

    story.run(day(4))

    (dataset(tmp_path) / "README.md").unlink()
    assert story.rows() == ids_of("a", "b", days=range(4))


def story_unit(story: Story, path: Path) -> tuple[int, str]:
    """Return the day and the unit of a file."""
    (found,) = [file for file in story.manifest()["files"] if file["uri"].endswith(path.name)]
    units = [(number, unit) for number in range(8) for unit in "ab"]
    (one,) = [each for each in units if work_unit(*each) == found["signature"]]
    return one


def test_files_that_the_job_itself_put_together_stop_nothing(tmp_path, source):
    story = Table(tmp_path, source, "delta", **WINDOW, ms__grace__period__days="1")
    story.run(day(4))
    compact(story.job(), CompactionRequest(clock=lambda: story.clock))
    story.append_elsewhere()
    story.run(day(5))
    story.forget((0, "a"), decision=FileDecision.KEEP)
    story.run(day(5))
    assert story.rows().total() == ids_of("a", "b", days=range(5)).total() + 1


@pytest.mark.parametrize(
    ("changes", "name", "is_refused"),
    [
        ({}, "part-00000-9f0c2b1e-c000.parquet", True),
        ({"is_dump": True}, "part-00000-9f0c2b1e-c000.parquet", False),
        ({}, "part-run-9-shared-0.parquet", False),
        ({}, "part-run-9-0123456789abcdef-0.parquet", False),
        ({}, "part-00000-9f0c2b1e-c000.csv", False),
        ({"signature": "another"}, "part-00000-9f0c2b1e-c000.parquet", False),
    ],
    ids=["another's", "dumped", "a shared one", "of a work unit", "of another format", "not read"],
)
def test_a_file_that_is_gone_counts_where_another_of_its_kind_may_have_its_rows(
    changes, name, is_refused, tmp_path, source
):
    story = Story(tmp_path, source, **WINDOW)
    job, folder = story.job(), f"file://{dataset(tmp_path)}"
    gone = PublishedFile(f"{folder}/part-run-1-0123456789abcdef-0.parquet", "s", 1, 1, "", "run-1")
    seen = (replace(gone, **changes), PublishedFile(f"{folder}/{name}", "", 0, 1, "", ""))
    with story.store() as store:
        found = rewritten_units("orders", store, job.publishing, LocalFilesystem(), seen, ["s"])
    assert (found is not None) == is_refused
