"""Jobs that publish to Delta and Iceberg tables: runs, readers beside them, operators' acts."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import CommitUnknownError
from dil.model.job import PublishMode
from dil.model.report import RunStatus
from dil.operator import amendments, run_history
from dil.operator.amendments import FileDecision, Selection
from dil.publishing import table_destination
from dil.run.lease import leased
from tests.integration.local_jobs import error_of
from tests.jobs import ROOT, SCHEMA, dataset
from tests.killed import KilledError, killed
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day, ids_of, work_unit
from tests.table_readers import FORMATS, files_of, ids, listed_files, rows_by_polars, rows_of

DAYS = 6


@pytest.fixture(scope="module")
def source() -> Iterator[HttpServer]:
    rows = Dataset.generate(DAYS * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


class TableStory(Story):
    """A story whose rows are in a table."""

    def __init__(self, folder: Path, source: HttpServer, kind: str, **changes: str) -> None:
        super().__init__(folder, source, ms__table__format=kind, **changes)
        self.kind = kind

    def rows(self) -> Counter[tuple[str, int]]:
        """Return what a reader of the table finds; the manifest lists the same files."""
        assert listed_files(self.folder) == files_of(self.kind, self.folder)
        return ids(rows_of(self.kind, self.folder))


@pytest.fixture
def story(tmp_path: Path, source: HttpServer, kind: str) -> TableStory:
    return TableStory(tmp_path, source, kind)


# Runs


def test_runs_append_to_a_table_that_another_engine_reads(story: TableStory) -> None:
    for number in (1, 2, 3):
        assert story.run(day(number)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))
    read = rows_by_polars(story.kind, story.folder)
    assert Counter(zip(read["unit"], read["id"], strict=True)) == story.rows()
    story.head()  # verifies the chain


def test_windows_are_replaced_by_what_is_read_again(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    story = TableStory(
        tmp_path, source, kind, ms__publish__mode="window_replace", ms__grace__period__days="2"
    )
    story.run(day(2))
    before = set(files_of(kind, tmp_path))
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert not before & set(files_of(kind, tmp_path))
    assert all(path.exists() for path in before)


def test_a_snapshot_replaces_the_table(tmp_path: Path, source: HttpServer, kind: str) -> None:
    story = TableStory(
        tmp_path,
        source,
        kind,
        extract__table__type="SNAPSHOT_ONLY",
        ms__table__partition__fields="unit",
    )
    for number in (2, 3):
        report = story.run(day(number))
        assert report.status is RunStatus.SUCCESS
        assert story.rows() == ids_of("a", "b", days=range(number))
    folders = {path.parent.name for path in files_of(kind, tmp_path)}
    assert folders == {"unit=a", "unit=b"}


def test_rows_are_merged_by_key(tmp_path: Path, source: HttpServer, kind: str) -> None:
    story = TableStory(
        tmp_path,
        source,
        kind,
        extract__table__type="SNAPSHOT_APPEND",
        extract__primary__key__fields="unit,id",
        ms__grace__period__days="2",
    )
    assert story.job().publishing.mode is PublishMode.MERGE
    for number in (2, 3):
        assert story.run(day(number)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_columns_of_another_type_fail_the_run_and_leave_the_table(story: TableStory) -> None:
    story.run(day(1))
    before = files_of(story.kind, story.folder)
    other = [
        {**column, "dataType": {"type": "string"}} if column["columnName"] == "amount" else column
        for column in SCHEMA
    ]
    changes = {"ms__output__schema": json.dumps(other), "ms__schema__contract": "evolve"}
    report = story.run(day(2), story.job(**changes))
    assert report.status is RunStatus.FAILED
    assert error_of(report).startswith('DIL-WRITE: column "amount" is string')
    assert files_of(story.kind, story.folder) == before
    with story.store() as store:
        assert store.pending_intent() is None
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_readers_beside_runs_see_whole_publishes_only(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    story = TableStory(tmp_path, source, kind, ms__publish__mode="replace")
    story.run(day(1))
    whole = [ids_of("a", "b", days=range(number)) for number in range(1, DAYS)]
    seen: list[Counter[tuple[str, int]]] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.append(ids(rows_of(kind, tmp_path)))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(2, DAYS):
            assert story.run(day(number)).status is RunStatus.SUCCESS
    finally:
        over.set()
        reader.join()
    assert len(seen) > 1
    assert all(rows in whole for rows in seen)
    sizes = [rows.total() for rows in seen]
    assert sizes == sorted(sizes)


# Acts

ONE = Selection(signatures=frozenset({work_unit(1, "a")}))
WITHOUT_ONE = ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1, 2))


def act(story: TableStory, verb: str) -> None:
    with (
        story.store() as store,
        amendments.open_session(
            story.job(), store, verb, now_ms=day(3), clock=lambda: story.clock
        ) as session,
    ):
        if verb == "forget":
            preview = amendments.propose_forget(session, ONE, FileDecision.WITHDRAW)
        else:
            preview = amendments.propose_undo(session)
        amendments.apply(session, preview)


def test_files_that_an_operator_withdraws_leave_the_table_and_come_back_by_undo(
    story: TableStory,
) -> None:
    story.run(day(3))
    states = story.states()
    act(story, "forget")
    assert story.rows() == WITHOUT_ONE
    act(story, "undo")
    assert (story.rows(), story.states()) == (ids_of("a", "b", days=range(3)), states)
    assert list((dataset(story.folder) / "_dil" / "withdrawn").rglob("*.parquet")) == []
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE


def test_what_was_withdrawn_is_read_again(story: TableStory) -> None:
    story.run(day(3))
    act(story, "forget")
    assert story.run(day(3)).units.planned == 1
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_publish_that_lost_files_is_finished_without_their_work_units(
    story: TableStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(1))

    with monkeypatch.context() as patch:
        patch.setattr(table_destination, "put_in_place", killed)
        with pytest.raises(KilledError):
            story.run(day(2))
    with story.store() as store:
        intent = store.pending_intent()
    (lost, *_) = (m for m in intent.commit.moves if m.target.signature == work_unit(1, "a"))
    Path(lost.source).unlink()
    with pytest.raises(CommitUnknownError):
        story.run(day(2))
    with (
        story.store() as store,
        leased(story.job(), store, "finish", lambda: story.clock) as lease,
    ):
        found = run_history.recorded_publish(story.job(), store)
        assert found.lost_work_units == (work_unit(1, "a"),)
        run_history.finish_publish(story.job(), store, lease, found)
    assert story.rows() == ids_of("a", "b", days=range(2)) - ids_of("a", days=range(1, 2))
    assert story.run(day(2)).units.planned == 1
    assert story.rows() == ids_of("a", "b", days=range(2))


# Imports


def test_checking_and_planning_load_no_library_of_a_table(story: TableStory) -> None:
    story.job()
    code = (
        "import sys; from dil.cli.main import main\n"
        "for verb in ('validate', 'plan'):\n"
        "    try: main([verb, sys.argv[1], '--now', '2020-01-02T00:00:00Z'])\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'deltalake', 'pyiceberg', 'pyarrow', 'sqlalchemy'} & set(sys.modules)\n"
    )
    path = str(story.folder / "orders.conf")
    subprocess.run([sys.executable, "-c", code, path], check=True, cwd=ROOT, stdout=subprocess.PIPE)


def test_after_a_restore_and_a_run_relist_makes_the_state_sound(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    changes = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}
    story = TableStory(tmp_path, source, kind, **changes)
    story.run(day(2))
    path, backup = str(story.folder / "orders.conf"), str(tmp_path / "early.db")
    assert main(["state", "backup", path, backup, "--yes"]) == 0
    story.run(day(3))
    assert main(["state", "restore", path, backup, "--yes"]) == 0
    story.run(day(4))
    assert main(["compact", path, "--vacuum-hours", "0"]) == 0
    assert main(["state", "verify", path]) == 1
    assert main(["state", "relist", path, "--yes"]) == 0
    assert main(["state", "verify", path]) == 0
    assert story.rows() == ids_of("a", "b", days=range(4))
