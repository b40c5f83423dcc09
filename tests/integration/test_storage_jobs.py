"""Whole jobs that publish to a bucket: every mode, state beside the data, readers, operators."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dil import acts, config
from dil.acts import FileDecision, Selection
from dil.errors import ConfigError, WriteError
from dil.job import RunOptions, run_job
from dil.model.report import RunStatus
from tests.integration.s3_places import Bucket, use
from tests.jobs import ROOT, run
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.servers.s3 import MotoServer, RcloneServer
from tests.stories import STEP_MS, Story, day, executor, failing, ids_of, work_unit
from tests.unit.job.test_page_commit import PAGED, SECOND_PAGE


@pytest.fixture(scope="module")
def moto():
    with MotoServer() as server:
        yield server


@pytest.fixture
def bucket(moto, monkeypatch):
    use(moto.url, monkeypatch)
    return Bucket(moto)


@pytest.fixture
def source():
    dataset = Dataset.generate(6 * 4, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(dataset) as server:
        yield server


def on_s3(bucket, **changes):
    return {
        "data__publisher__final__dir": f"{bucket.uri}/lake",
        "state__store__type": "fs",
        "state__store__dir": f"{bucket.uri}/state",
        **changes,
    }


def visible(bucket):
    """Return the keys that a reader of the folder sees."""
    return [
        key
        for key in bucket.keys("lake/")
        if not any(part.startswith(("_", ".")) for part in key.split("/"))
    ]


def listed(bucket):
    """Return the keys that a reader of the newest manifest sees."""
    meta = "lake/shop/orders/_dil"
    objects = bucket.objects(f"{meta}/")
    manifest = json.loads(objects[f"{meta}/current.json"])["manifest"]
    files = json.loads(objects[f"{meta}/{manifest}"])["files"]
    return sorted(file["uri"].removeprefix(f"{bucket.uri}/") for file in files)


def ids(bucket, keys):
    rows = Counter()
    objects = bucket.objects("lake/shop/")
    for key in keys:
        table = pq.read_table(io.BytesIO(objects[key]), columns=["unit", "id"])
        rows.update(zip(table["unit"].to_pylist(), table["id"].to_pylist(), strict=True))
    return rows


MODES = {
    "append": {"ms__publish__mode": "append"},
    "append, a folder for each run": {
        "ms__publish__mode": "append", "writer__file__path__type": "default",
    },
    "replace": {"ms__publish__mode": "replace"},
    "window replace": {"ms__publish__mode": "window_replace", "ms__grace__period__days": "2"},
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_every_row_is_there_once_after_each_run(mode, bucket, source, tmp_path):
    story = Story(tmp_path, source, **on_s3(bucket, **MODES[mode]))
    for number in (2, 4):
        report = story.run(day(number))
        assert report.status is RunStatus.SUCCESS
        assert all(uri.startswith(f"{bucket.uri}/lake/shop/orders/") for uri in report.files)
        assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(number))
        assert visible(bucket) == listed(bucket)
    assert story.run(day(4)).status in {RunStatus.NOTHING_DUE, RunStatus.SUCCESS}
    assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(4))
    assert bucket.keys("lake/_staging/") == []


def test_nothing_is_left_on_this_machine(bucket, source, tmp_path):
    story = Story(tmp_path, source, **on_s3(bucket))
    story.run(day(2))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["orders.conf"]
    assert bucket.keys("state/orders-") != []


def test_work_that_a_failed_run_completed_is_adopted_from_the_bucket(bucket, source, tmp_path):
    story = Story(tmp_path, source, **on_s3(bucket))
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).status is RunStatus.FAILED
    assert visible(bucket) == []
    source.faults.clear()
    report = story.run(day(2))
    assert report.units.adopted == 3
    assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(2))


def test_a_run_goes_on_inside_a_work_unit_from_pages_in_the_bucket(bucket, source, tmp_path):
    story = Story(tmp_path, source, **on_s3(bucket, **PAGED))
    source.faults.append(SECOND_PAGE)
    assert story.run(day(2)).status is RunStatus.FAILED
    source.faults.clear()
    source.state.log.clear()
    report = story.run(day(2))
    assert report.status is RunStatus.SUCCESS
    assert [dict(entry.query).get("cursor") for entry in source.requests] == ["c6"]
    assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(2))
    assert bucket.keys("lake/_staging/") == []


def test_an_operator_takes_files_out_and_brings_them_back(bucket, source, tmp_path):
    story = Story(tmp_path, source, **on_s3(bucket))
    story.run(day(2))
    before = bucket.objects("lake/shop/orders/part-")
    one = Selection(frozenset({work_unit(1, "b")}))

    def act(verb, propose):
        with (
            story.store() as store,
            acts.open_desk(
                story.job(), store, verb, now_ms=day(2), clock=lambda: story.clock
            ) as desk,
        ):
            acts.perform(desk, propose(desk))

    act("forget", lambda desk: acts.propose_forget(desk, one, FileDecision.WITHDRAW))
    assert ids(bucket, visible(bucket)).total() == 12
    assert visible(bucket) == listed(bucket)
    act("undo", acts.propose_undo)
    assert bucket.objects("lake/shop/orders/part-") == before
    assert visible(bucket) == listed(bucket)


def test_secondary_input_is_read_from_a_dataset_in_the_bucket(bucket, source, tmp_path):
    dated = [{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}}]
    units = Story(
        tmp_path / "units", source,
        **on_s3(
            bucket,
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
    entry = {"path": f"{bucket.uri}/lake/shop/units".replace("s3:", "s3a:"), "fields": ["unit"]}
    reader = Story(
        tmp_path / "reader", source,
        **on_s3(
            bucket, ms__watermark=json.dumps(dated), ms__secondary__input=json.dumps([entry])
        ),
    )  # fmt: skip
    assert reader.run(day(1)).status is RunStatus.SUCCESS
    found = [key for key in visible(bucket) if "/orders/" in key]
    assert ids(bucket, found) == ids_of("a", "b", days=range(1))


def test_two_jobs_that_do_not_both_append_are_kept_apart_in_the_bucket(bucket, source, tmp_path):
    Story(tmp_path / "one", source, **on_s3(bucket)).run(day(1))
    other = Story(
        tmp_path / "other", source, **on_s3(bucket, job__name="other", ms__publish__mode="replace")
    )
    with pytest.raises(ConfigError, match="belongs to job orders"):
        other.run(day(1))


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


def test_validate_and_a_plan_by_local_state_load_no_client_of_s3(bucket, source, tmp_path):
    changes = {"data__publisher__final__dir": f"{bucket.uri}/lake"}
    job = Story(tmp_path, source, **changes)
    job.job()
    code = (
        "import atexit, sys; from dil.cli.main import main\n"
        "seen = {'pyarrow', 'botocore', 'pyspark'}\n"
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


def test_the_example_publishes_to_a_bucket(bucket, tmp_path):
    places = {"data.publisher.final.dir": "lake", "state.store.dir": "state"}
    overrides = {key: f"{bucket.uri}/{name}" for key, name in places.items()}
    conf = ROOT / "conf" / "examples" / "files" / "s3.conf"
    job = config.load(conf, overrides=overrides, environ={}).job
    now = 1_767_225_600_000
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), run_id="r1")
    report = run_job(job, options)
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 216)
    assert [key.rpartition("/")[0] for key in visible(bucket)] == ["lake/weather_lake"] * 3


def test_tasks_of_spark_reach_the_bucket(bucket, source, tmp_path):
    Story(tmp_path, source, **on_s3(bucket)).job()
    done = run(tmp_path / "orders.conf", "2020-01-03T00:00:00Z")
    assert done.returncode == 0, done.stderr
    assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(2))
    assert visible(bucket) == listed(bucket)
