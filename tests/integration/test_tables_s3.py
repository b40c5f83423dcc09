"""Delta and Iceberg tables in a bucket: modes, readers beside runs, other writers, failures."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import write_deltalake

from dil.errors import StateError, WriteError
from dil.model.job import PublishMode
from dil.model.report import RunStatus
from dil.operator import amendments
from dil.operator.amendments import FileDecision, Selection
from dil.operator.compaction import CompactionRequest, compact
from dil.publishing.destination import destination_for
from dil.storage import filesystem_for
from tests.integration.s3_places import Bucket, OrderlyMoto, use
from tests.integration.s3_tables import BucketTable
from tests.jobs import ROOT, properties
from tests.marks import all_long_but
from tests.servers.http_server import HttpServer
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.programs import free_port
from tests.servers.rows import Dataset
from tests.servers.s3 import RcloneServer
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day, ids_of, work_unit
from tests.table_readers import FORMATS, ids

DAYS = 5


@pytest.fixture(scope="module")
def moto():
    with OrderlyMoto() as server:
        yield server


@pytest.fixture(scope="module")
def source():
    rows = Dataset.generate(DAYS * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


@pytest.fixture
def bucket(moto, monkeypatch):
    use(moto.url, monkeypatch)
    return Bucket(moto)


@pytest.fixture(params=FORMATS)
def kind(request):
    return request.param


class TableStory(Story):
    """A story whose rows are in a table in a bucket, and whose state is on this machine."""

    def __init__(self, folder, source, kind, bucket, url, **changes):
        place = f"{bucket.uri}/lake"
        super().__init__(
            folder, source, ms__table__format=kind, data__publisher__final__dir=place, **changes
        )
        self.table = BucketTable(kind, bucket, folder, url)

    def rows(self):
        """Return what a reader of the table finds; the manifest lists the same files."""
        assert self.table.listed() == self.table.files()
        return self.table.ids()


@pytest.fixture
def story_of(tmp_path, source, kind, bucket, moto):
    def made(**changes):
        return TableStory(tmp_path, source, kind, bucket, moto.url, **changes)

    return made


# Runs


@pytest.mark.long
def test_runs_append_to_a_table_that_another_engine_reads(story_of):
    story = story_of()
    for number in (1, 2, 3):
        assert story.run(day(number)).status is RunStatus.SUCCESS
        assert story.rows() == ids_of("a", "b", days=range(number))
    assert story.table.ids_by_polars() == ids_of("a", "b", days=range(3))
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE
    assert story.table.bucket.keys("lake/_staging/") == []
    story.head()  # verifies the chain


MODES = {
    PublishMode.REPLACE: {
        "extract__table__type": "SNAPSHOT_ONLY",
        "ms__table__partition__fields": "unit",
    },
    PublishMode.WINDOW_REPLACE: {
        "ms__publish__mode": "window_replace",
        "ms__grace__period__days": "2",
    },
    PublishMode.MERGE: {
        "extract__table__type": "SNAPSHOT_APPEND",
        "extract__primary__key__fields": "unit,id",
        "ms__grace__period__days": "2",
    },
}


@pytest.mark.parametrize(
    ("kind", "mode"),
    all_long_but(itertools.product(FORMATS, MODES), ("delta", PublishMode.MERGE)),
    indirect=["kind"],
)
def test_every_row_is_there_once_after_each_run(mode, story_of):
    story = story_of(**MODES[mode])
    assert story.job().publishing.mode is mode
    for number in (2, 3):
        before = story.table.stored()
        assert story.run(day(number)).status is RunStatus.SUCCESS
        assert story.rows() == ids_of("a", "b", days=range(number))
        assert set(before) < set(story.table.stored())  # for readers of earlier versions


@pytest.mark.long
@pytest.mark.parametrize("units", [("a/b", "x=y%"), ("a c", "ü+")])
def test_rows_are_kept_apart_by_values_that_need_escapes(units, tmp_path, kind, bucket, moto):
    rows = Dataset.generate(2 * ROWS_PER_DAY, units=units, step_ms=STEP_MS)
    with HttpServer(rows) as source:
        changes = {"ms__table__partition__fields": "unit", "ms__publish__mode": "replace"}
        story = TableStory(tmp_path, source, kind, bucket, moto.url, **changes)
        dates = json.loads(properties(tmp_path, "")["ms.watermark"])[:1]
        named = [{"name": "unit", "type": "unit", "units": ",".join(units)}]
        story.changes["ms__watermark"] = json.dumps([*dates, *named])
        for number in (1, 2):
            assert story.run(day(number)).status is RunStatus.SUCCESS
            assert story.rows() == ids_of(*units, days=range(number))
            # Polars looks for the second kind under escaped keys where a Delta log names them.
            if kind == "iceberg" or "a/b" in units:
                assert story.table.ids_by_polars() == story.rows()
    assert set(story.table.files()) <= set(story.table.stored())


@pytest.mark.long
def test_readers_beside_runs_see_whole_publishes_only(story_of):
    story = story_of(ms__publish__mode="replace")
    story.run(day(1))
    whole = [ids_of("a", "b", days=range(number)) for number in range(1, DAYS)]
    seen: list[Counter[tuple[str, int]]] = []
    over = threading.Event()

    def read():
        while not over.is_set():
            seen.append(story.table.ids())

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            for number in range(2, DAYS):
                assert story.run(day(number)).status is RunStatus.SUCCESS
        finally:
            over.set()
        reading.result()
    assert len(seen) > 1
    assert all(rows in whole for rows in seen)
    sizes = [rows.total() for rows in seen]
    assert sizes == sorted(sizes)


@pytest.mark.long
def test_two_jobs_append_to_one_table_at_a_time(tmp_path, source, kind, bucket, moto):
    names = ("one", "two", "three")
    changes = {"ms__publish__mode": "append", "state__store__dir": str(tmp_path / "state")}
    stories = [
        TableStory(tmp_path / name, source, kind, bucket, moto.url, job__name=name, **changes)
        for name in names
    ]
    first = TableStory(tmp_path, source, kind, bucket, moto.url, job__name="zero", **changes)
    first.run(day(1))
    with ThreadPoolExecutor(len(names)) as pool:
        runs = [
            pool.submit(each.run, day(2), run_id=f"run-of-{name}")
            for name, each in zip(names, stories, strict=True)
        ]
        reports = [run.result() for run in runs]
    assert [report.failures for report in reports] == [()] * len(names)
    assert [report.status for report in reports] == [RunStatus.SUCCESS] * len(names)
    expected = ids_of("a", "b", days=range(1)) + sum(
        (ids_of("a", "b", days=range(2)) for _ in names), Counter()
    )
    assert first.rows() == expected


# Operators


def real_clock():
    """Return what the libraries date versions by, epoch ms UTC."""
    return time.time_ns() // 1_000_000


@pytest.mark.long
@pytest.mark.parametrize("fields", ["", "unit"])
def test_small_files_are_put_together_and_a_vacuum_deletes_the_old_ones(fields, story_of):
    story = story_of(ms__publish__mode="append", ms__table__partition__fields=fields)
    story.run(day(2))
    story.run(day(3))
    assert len(story.table.files()) == 6

    outcome = compact(story.job(), CompactionRequest(clock=real_clock))

    assert outcome.removed == 6
    assert len(story.table.files()) == (2 if fields else 1)
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert set(story.table.files()) < set(story.table.stored())
    look = compact(
        story.job(), CompactionRequest(clock=real_clock, vacuum_hours=0, is_dry_run=True)
    )
    assert len([path for path in look.vacuumed if path.endswith(".parquet")]) == 6
    told = compact(story.job(), CompactionRequest(clock=real_clock, vacuum_hours=0)).vacuumed
    assert set(look.vacuumed) <= set(told)
    assert all(path.startswith(story.table.uri) for path in told)
    assert story.table.stored() == story.table.files()
    assert compact(story.job(), CompactionRequest(clock=real_clock, vacuum_hours=0)).vacuumed == ()
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))


def act(story, verb):
    with (
        story.store() as store,
        amendments.open_session(
            story.job(), store, verb, now_ms=day(3), clock=lambda: story.clock
        ) as session,
    ):
        if verb == "undo":
            preview = amendments.propose_undo(session)
        else:
            one = Selection(signatures=frozenset({work_unit(1, "a")}))
            preview = amendments.propose_forget(session, one, FileDecision.WITHDRAW)
        amendments.apply(session, preview)


@pytest.mark.long
def test_files_that_an_operator_withdraws_leave_the_table_and_come_back_by_undo(story_of):
    story = story_of()
    story.run(day(3))
    act(story, "forget")
    assert story.rows() == ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1, 2))
    act(story, "undo")
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE


# Other writers, and what does not work


@pytest.mark.long
def test_rows_that_another_program_adds_meanwhile_stay(story_of, kind, bucket, moto, monkeypatch):
    story = story_of()
    story.run(day(1))
    row = story.table.read().slice(0, 1)

    def add():
        if kind == "delta":
            write_deltalake(
                story.table.uri, row, mode="append", storage_options=story.table.options
            )
        else:
            story.table.iceberg().append(row)

    name = b"_delta_log/00000000000000000002.json" if kind == "delta" else b"_iceberg/snap-"
    with MeddlingProxy(moto.port) as proxy:
        use(f"http://127.0.0.1:{proxy.port}", monkeypatch)
        proxy.act_before(b"PUT /" + f"{bucket.name}/lake/shop/orders/".encode() + name, add)
        assert story.run(day(2)).status is RunStatus.SUCCESS
        assert not proxy.failures
        assert not proxy._acts, "nothing was added"
    assert story.table.ids() == ids_of("a", "b", days=range(2)) + ids(row)


def test_a_commit_whose_answer_was_lost_is_there_once(story_of, kind, bucket, moto, monkeypatch):
    story = story_of()
    story.run(day(1))
    name = b"_delta_log/00000000000000000002.json" if kind == "delta" else b"_iceberg/00002-"
    with MeddlingProxy(moto.port) as proxy:
        use(f"http://127.0.0.1:{proxy.port}", monkeypatch)
        proxy.cut_answer_after(b"PUT /" + f"{bucket.name}/lake/shop/orders/".encode() + name)
        assert story.run(day(2)).status is RunStatus.SUCCESS
        assert proxy.cuts == 1
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_publish_that_lost_its_service_is_finished_by_the_next_run(
    story_of, kind, bucket, moto, monkeypatch
):
    story = story_of()
    story.run(day(1))
    name = b"_delta_log/00000000000000000002.json" if kind == "delta" else b"_iceberg/00002-"
    with MeddlingProxy(moto.port) as proxy:
        use(f"http://127.0.0.1:{proxy.port}", monkeypatch)
        answered = b"PUT /" + f"{bucket.name}/lake/shop/orders/".encode() + name
        proxy.cut_answer_after(answered, for_good=True)
        report = story.run(day(2))
        assert report.status is RunStatus.FAILED
        assert proxy.cuts == 1
    use(moto.url, monkeypatch)
    assert story.run(day(2)).status in {RunStatus.SUCCESS, RunStatus.NOTHING_DUE}
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_service_that_ignores_conditions_is_refused_before_anything_is_read(
    tmp_path, source, kind, monkeypatch
):
    with RcloneServer() as server:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        story = TableStory(tmp_path, source, kind, bucket, server.url)
        source.state.log.clear()
        with pytest.raises(WriteError, match="does not obey If-None-Match"):
            story.run(day(1))
        assert source.requests == []
        assert bucket.keys("lake/shop/orders/_delta_log") == []


def test_a_service_that_is_gone_is_told_in_one_plain_line(story_of, bucket, monkeypatch):
    story = story_of()
    spec = story.job().publishing
    story.run(day(1))
    use(f"http://127.0.0.1:{free_port()}", monkeypatch)
    with pytest.raises((WriteError, StateError), match="cannot be reached") as caught:
        destination_for(spec, filesystem_for(spec.final_dir)).live()
    assert "\n" not in caught.value.message
    assert "\x1b" not in caught.value.message


def test_a_table_whose_log_is_broken_is_told_in_one_plain_line(story_of, kind, bucket):
    story = story_of()
    story.run(day(1))
    objects = bucket.objects("lake/shop/orders/")
    for key in objects:
        if "/_delta_log/" in key or key.endswith(".metadata.json"):
            bucket.client.put_object(Bucket=bucket.name, Key=key, Body=b"{")
    with pytest.raises(StateError, match="cannot be read") as caught:
        story.run(day(2))
    assert "\x1b" not in caught.value.message
    assert "\n" not in caught.value.message


# Imports


def test_checking_and_planning_load_no_library_of_a_table_or_of_s3(story_of):
    story = story_of()
    story.job()
    code = (
        "import sys; from dil.cli.main import main\n"
        "for verb in ('validate', 'plan'):\n"
        "    try: main([verb, sys.argv[1], '--now', '2020-01-02T00:00:00Z'])\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'deltalake', 'pyiceberg', 'pyarrow', 'botocore'} & set(sys.modules)\n"
    )
    path = str(story.folder / "orders.conf")
    subprocess.run([sys.executable, "-c", code, path], check=True, cwd=ROOT, stdout=subprocess.PIPE)
