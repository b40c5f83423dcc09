"""Whole jobs that publish to stores: every mode, state beside the data, readers, operators."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

from dil import config
from dil.errors import ConfigError, WriteError
from dil.model.report import RunStatus
from dil.operator import amendments
from dil.operator.amendments import FileDecision, Selection
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.integration.dil_processes import dil_alone
from tests.integration.places import MODES, PLACES, ids, listed, on_place, open_place, visible
from tests.integration.s3_places import Bucket, use
from tests.jobs import ROOT
from tests.marks import all_long_but, some_long
from tests.servers.s3 import RcloneServer
from tests.stories import Story, day, executor, failing, ids_of, work_unit
from tests.unit.run.test_page_commit import PAGED, SECOND_PAGE


@pytest.fixture(params=all_long_but(PLACES, "S3"))
def place(request, monkeypatch):
    return open_place(request.param, request, monkeypatch)


@pytest.mark.parametrize(
    ("place", "mode"),
    all_long_but(itertools.product(PLACES, MODES), ("S3", "append")),
    indirect=["place"],
)
def test_every_row_is_there_once_after_each_run(mode, place, source, tmp_path):
    story = Story(tmp_path, source, **on_place(place, **MODES[mode]))
    for number in (2, 4):
        report = story.run(day(number))
        assert report.status is RunStatus.SUCCESS
        assert all(uri.startswith(f"{place.uri}/lake/shop/orders/") for uri in report.files)
        assert ids(place, visible(place)) == ids_of("a", "b", days=range(number))
        assert visible(place) == listed(place)
    assert story.run(day(4)).status in {RunStatus.NOTHING_DUE, RunStatus.SUCCESS}
    assert ids(place, visible(place)) == ids_of("a", "b", days=range(4))
    assert place.keys("lake/_staging/") == []
    assert place.keys("state/orders-") != []
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["orders.conf"]


@pytest.mark.parametrize("place", ["S3", "HDFS"], indirect=True)
def test_nothing_is_left_on_this_machine(place, source, tmp_path):
    story = Story(tmp_path, source, **on_place(place))
    story.run(day(2))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["orders.conf"]
    assert place.keys("state/orders-") != []


def test_work_that_a_failed_run_completed_is_adopted(place, source, tmp_path):
    story = Story(tmp_path, source, **on_place(place))
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).status is RunStatus.FAILED
    assert visible(place) == []
    source.faults.clear()
    assert story.run(day(2)).units.adopted == 3
    assert ids(place, visible(place)) == ids_of("a", "b", days=range(2))


def test_a_run_goes_on_inside_a_work_unit_from_pages_in_the_store(place, source, tmp_path):
    story = Story(tmp_path, source, **on_place(place, **PAGED))
    source.faults.append(SECOND_PAGE)
    assert story.run(day(2)).status is RunStatus.FAILED
    source.faults.clear()
    source.state.log.clear()
    report = story.run(day(2))
    assert report.status is RunStatus.SUCCESS
    assert [dict(entry.query).get("cursor") for entry in source.requests] == ["c6"]
    assert ids(place, visible(place)) == ids_of("a", "b", days=range(2))
    assert place.keys("lake/_staging/") == []


@pytest.mark.parametrize("place", some_long(PLACES, "Azure", "Google"), indirect=True)
def test_an_operator_takes_files_out_and_brings_them_back(place, source, tmp_path):
    story = Story(tmp_path, source, **on_place(place))
    story.run(day(2))
    before = place.objects("lake/shop/orders/part-")
    one = Selection(frozenset({work_unit(1, "b")}))

    def act(verb, propose):
        with (
            story.store() as store,
            amendments.open_session(
                story.job(), store, verb, now_ms=day(2), clock=lambda: story.clock
            ) as session,
        ):
            amendments.apply(session, propose(session))

    act("forget", lambda session: amendments.propose_forget(session, one, FileDecision.WITHDRAW))
    assert ids(place, visible(place)).total() == 12
    assert visible(place) == listed(place)
    act("undo", amendments.propose_undo)
    assert place.objects("lake/shop/orders/part-") == before
    assert visible(place) == listed(place)


def also_named(uri):
    """Return the other way in which Hadoop's tools write an address, where there is one."""
    other = uri.replace("s3:", "s3a:")
    if other.startswith("abfss:"):
        other = other.replace("abfss:", "wasbs:").replace(".dfs.", ".blob.")
    return other


def test_secondary_input_is_read_from_a_dataset_in_the_store(place, source, tmp_path):
    dated = [{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}}]
    units = Story(
        tmp_path / "units", source,
        **on_place(
            place,
            job__name="units",
            extract__table__name="units",
            ms__source__uri=f"{source.url}/units",
            ms__watermark=json.dumps(dated),
            ms__work__unit__partition="none",
            ms__parameters='[{"name":"x","value":"1"}]',
            ms__output__schema='[{"columnName":"unit","dataType":{"type":"string"}}]',
        ),
    )  # fmt: skip
    assert units.run(day(1)).status is RunStatus.SUCCESS
    entry = {"path": also_named(f"{place.uri}/lake/shop/units"), "fields": ["unit"]}
    changes = {"ms__watermark": json.dumps(dated), "ms__secondary__input": json.dumps([entry])}
    reader = Story(tmp_path / "reader", source, **on_place(place, **changes))
    assert reader.run(day(1)).status is RunStatus.SUCCESS
    found = [key for key in visible(place) if "/orders/" in key]
    assert ids(place, found) == ids_of("a", "b", days=range(1))


def test_two_jobs_that_do_not_both_append_are_kept_apart(place, source, tmp_path):
    Story(tmp_path / "one", source, **on_place(place)).run(day(1))
    changes = on_place(place, job__name="other", ms__publish__mode="replace")
    with pytest.raises(ConfigError, match="belongs to job orders"):
        Story(tmp_path / "other", source, **changes).run(day(1))


@pytest.mark.parametrize(
    "place", some_long(["S3", "Azure", "HDFS"], "Azure", "HDFS"), indirect=True
)
def test_tasks_of_spark_reach_the_store(place, source, tmp_path):
    Story(tmp_path, source, **on_place(place)).job()
    done = dil_alone("run", tmp_path / "orders.conf", "--now", "2020-01-03T00:00:00Z", "--json")
    assert done.returncode == 0, done.stderr
    assert ids(place, visible(place)) == ids_of("a", "b", days=range(2))
    assert visible(place) == listed(place)


@pytest.mark.parametrize(
    ("place", "example"),
    [
        ("S3", "s3.conf"), ("Azure", "azure.conf"), ("Google", "gcs.conf"), ("HDFS", "hdfs.conf")
    ],
    indirect=["place"],
)  # fmt: skip
def test_the_example_publishes_to_the_store(place, example):
    places = {"data.publisher.final.dir": "lake", "state.store.dir": "state"}
    overrides = {key: f"{place.uri}/{name}" for key, name in places.items()}
    conf = ROOT / "conf" / "examples" / "files" / example
    job = config.load(conf, overrides=overrides, environ={}).job
    now = 1_767_225_600_000
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), run_id="r1")
    report = run_job(job, options)
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 216)
    assert [key.rpartition("/")[0] for key in visible(place)] == ["lake/weather_lake"] * 3


@pytest.mark.parametrize(
    ("uri", "client"),
    [
        ("s3://nowhere", {"botocore"}),
        ("abfss://c@nowhere.dfs.core.windows.net", {
            "azure.core", "azure.storage.blob", "azure.identity",
        }),
        ("gs://nowhere", {"google.auth", "requests"}),
        ("hdfs://nowhere.invalid", {"dil.storage.hdfs.client"}),
    ],
    ids=PLACES,
)  # fmt: skip
def test_validate_and_a_plan_by_local_state_load_no_client(uri, client, source, tmp_path):
    Story(tmp_path, source, data__publisher__final__dir=f"{uri}/lake").job()
    heavy = {"pyarrow", "pyspark", "xml.sax.saxutils", *client}
    code = (
        "import atexit, sys; from dil.cli.main import main\n"
        f"seen = {heavy}\n"
        "atexit.register(lambda: print(sorted(seen & sys.modules.keys())))\n"
        "sys.argv[0] = 'dil'; main()\n"
    )
    path = str(tmp_path / "orders.conf")
    for words in (["validate", path], ["plan", path, "--now", "2020-01-02T00:00:00Z"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False,
            cwd=ROOT,
        )  # fmt: skip
        assert (done.stdout.splitlines()[-1], done.returncode) == ("[]", 0), done.stderr


def test_a_service_that_ignores_conditions_is_refused_before_anything_is_read(
    source, tmp_path, monkeypatch
):
    with RcloneServer() as server:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        place = {"data__publisher__final__dir": f"{bucket.uri}/lake"}
        with pytest.raises(WriteError, match="does not obey If-None-Match"):
            Story(tmp_path, source, **place).run(day(1))
        assert source.requests == []
        assert bucket.keys() == []
