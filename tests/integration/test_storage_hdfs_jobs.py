"""Whole jobs that publish to HDFS: every mode, state beside the data, operators, Spark's tasks."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import quote_plus

import pytest

from dil import config
from dil.errors import WriteError
from dil.job import RunOptions, run_job
from dil.model.report import RunStatus
from tests.dumps import dump_story, give
from tests.integration.hdfs_places import Folder, use
from tests.integration.test_storage_jobs import (
    on_s3 as on_hdfs,
)
from tests.integration.test_storage_jobs import (  # noqa: F401 - these very tests, on HDFS
    source,
    test_a_run_goes_on_inside_a_work_unit_from_pages_in_the_bucket,
    test_an_operator_takes_files_out_and_brings_them_back,
    test_every_row_is_there_once_after_each_run,
    test_nothing_is_left_on_this_machine,
    test_secondary_input_is_read_from_a_dataset_in_the_bucket,
    test_tasks_of_spark_reach_the_bucket,
    test_two_jobs_that_do_not_both_append_are_kept_apart_in_the_bucket,
    test_work_that_a_failed_run_completed_is_adopted_from_the_bucket,
    visible,
)
from tests.jobs import ROOT
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import Story, day, executor


@pytest.fixture
def bucket(hdfs, monkeypatch):
    use(monkeypatch)
    return Folder(hdfs)


def test_published_files_and_folders_have_the_permissions_of_the_job(bucket, source, tmp_path):  # noqa: F811
    modes = {"writer__file__permissions": "640", "data__publisher__permissions": "750"}
    Story(tmp_path, source, **on_hdfs(bucket, **modes)).run(day(2))
    assert {bucket.mode(key) for key in visible(bucket)} == {"640"}
    assert bucket.mode("lake/shop/orders") == "750"


def test_no_folder_of_a_run_is_left_behind(bucket, source, tmp_path):  # noqa: F811
    Story(tmp_path, source, **on_hdfs(bucket)).run(day(2))
    assert [path for path in bucket.folders() if path.startswith("lake/_staging/")] == []


def test_files_are_dumped_as_they_are_under_any_name_that_hdfs_takes(bucket, tmp_path):
    names = ("a b", "in/c", "ü#?%20+")
    with HttpServer(Dataset.generate(1)) as server:
        place = {"data__publisher__final__dir": f"{bucket.uri}/lake"}
        story = dump_story(tmp_path, server, *names, **place)
        for name in names:
            give(server, quote_plus(name), name.encode())
        assert story.run(day(4)).status is RunStatus.SUCCESS
    found = {key.removeprefix("lake/"): bucket.objects(key)[key] for key in visible(bucket)}
    assert found == {name: name.encode() for name in names}


def test_a_user_without_rights_is_refused_before_anything_is_read(
    bucket,
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    use(monkeypatch, "mallory")
    place = {"data__publisher__final__dir": f"{bucket.uri}/lake"}
    with pytest.raises(WriteError, match="Permission denied: user=mallory"):
        Story(tmp_path, source, **place).run(day(1))
    assert source.requests == []
    assert bucket.keys() == []


def test_validate_and_a_plan_by_local_state_ask_no_cluster(source, tmp_path):  # noqa: F811
    changes = {"data__publisher__final__dir": "hdfs://nowhere.invalid/lake"}
    Story(tmp_path, source, **changes).job()
    code = (
        "import atexit, sys; from dil.cli.main import main\n"
        "seen = {'pyarrow', 'dil.storage.hdfs.client', 'pyspark'}\n"
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


def test_the_example_publishes_to_hdfs(bucket):
    places = {"data.publisher.final.dir": "lake", "state.store.dir": "state"}
    overrides = {key: f"{bucket.uri}/{name}" for key, name in places.items()}
    conf = ROOT / "conf" / "examples" / "files" / "hdfs.conf"
    job = config.load(conf, overrides=overrides, environ={}).job
    now = 1_767_225_600_000
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), run_id="r1")
    report = run_job(job, options)
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 216)
    assert [key.rpartition("/")[0] for key in visible(bucket)] == ["lake/weather_lake"] * 3


def test_a_cluster_by_another_name_is_refused_before_anything_is_read(bucket, source, tmp_path):  # noqa: F811
    Story(tmp_path, source, **on_hdfs(bucket)).run(day(1))
    before, asked = bucket.objects(), len(source.requests)
    renamed = bucket.uri.replace("127.0.0.1", "localhost")
    final = {"data__publisher__final__dir": f"{renamed}/lake"}
    with pytest.raises(WriteError, match=r"listed under another address: webhdfs://127\.0\.0\.1"):
        Story(tmp_path, source, **on_hdfs(bucket) | final).run(day(2))
    assert len(source.requests) == asked
    assert {key: data for key, data in bucket.objects().items() if key in before} == before
