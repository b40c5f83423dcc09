"""Whole jobs that publish to Google Cloud Storage, which is the fake of tests/servers/gcs.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dil import config
from dil.errors import ConfigError
from dil.job import RunOptions, run_job
from dil.model.job import StateSpec
from dil.model.report import RunStatus
from tests.contract.state_stores import Place
from tests.contract.test_state_store_races import (  # noqa: F401 - these very tests, on Google's
    test_a_commit_that_fails_half_way_leaves_nothing,
    test_a_process_whose_lease_was_taken_over_is_refused,
    test_no_commit_of_racing_processes_is_lost,
    test_of_processes_that_race_for_a_lease_one_gets_it,
)
from tests.integration.gcs_places import Bucket, use
from tests.integration.killed_jobs import check_kills
from tests.integration.test_storage_jobs import MODES, ids, listed, visible
from tests.integration.test_storage_jobs import on_s3 as on_remote
from tests.jobs import ROOT
from tests.servers.gcs import GcsServer
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, executor, failing, ids_of
from tests.torture.kills import KillServer


@pytest.fixture(scope="module")
def gcs():
    with GcsServer() as server, pytest.MonkeyPatch.context() as patch:
        use(server.url, patch)
        yield server


@pytest.fixture
def bucket(gcs):
    return Bucket(gcs)


@pytest.fixture
def source():
    dataset = Dataset.generate(6 * 4, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(dataset) as server:
        yield server


@pytest.fixture
def place(bucket):
    return Place(StateSpec("filelog", f"{bucket.uri}/state"), traces=bucket.keys)


@pytest.fixture
def store(place):
    with place.open() as opened:
        yield opened


@pytest.mark.parametrize("mode", MODES)
def test_every_row_is_there_once_after_each_run(mode, bucket, source, tmp_path):
    story = Story(tmp_path, source, **on_remote(bucket, **MODES[mode]))
    for number in (2, 4):
        report = story.run(day(number))
        assert report.status is RunStatus.SUCCESS
        assert all(uri.startswith(f"{bucket.uri}/lake/shop/orders/") for uri in report.files)
        assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(number))
        assert visible(bucket) == listed(bucket)
    assert story.run(day(4)).status in {RunStatus.NOTHING_DUE, RunStatus.SUCCESS}
    assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(4))
    assert bucket.keys("lake/_staging/") == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["orders.conf"]


def test_work_that_a_failed_run_completed_is_adopted(bucket, source, tmp_path):
    story = Story(tmp_path, source, **on_remote(bucket))
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).status is RunStatus.FAILED
    assert visible(bucket) == []
    source.faults.clear()
    assert story.run(day(2)).units.adopted == 3
    assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(2))


def test_two_jobs_that_do_not_both_append_are_kept_apart(bucket, source, tmp_path):
    Story(tmp_path / "one", source, **on_remote(bucket)).run(day(1))
    changes = on_remote(bucket, job__name="other", ms__publish__mode="replace")
    with pytest.raises(ConfigError, match="belongs to job orders"):
        Story(tmp_path / "other", source, **changes).run(day(1))


def test_validate_and_a_plan_by_local_state_load_no_client_of_google(bucket, source, tmp_path):
    Story(tmp_path, source, data__publisher__final__dir=f"{bucket.uri}/lake").job()
    code = (
        "import atexit, sys; from dil.cli.main import main\n"
        "seen = {'pyarrow', 'google.auth', 'requests', 'pyspark'}\n"
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


def test_the_example_publishes_to_a_bucket(bucket):
    places = {"data.publisher.final.dir": "lake", "state.store.dir": "state"}
    overrides = {key: f"{bucket.uri}/{name}" for key, name in places.items()}
    conf = ROOT / "conf" / "examples" / "files" / "gcs.conf"
    job = config.load(conf, overrides=overrides, environ={}).job
    now = 1_767_225_600_000
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), run_id="r1")
    report = run_job(job, options)
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 216)
    assert [key.rpartition("/")[0] for key in visible(bucket)] == ["lake/weather_lake"] * 3


@pytest.fixture(scope="module")
def kills(gcs):
    with KillServer() as server:
        yield server


@pytest.mark.parametrize("mode", ["append", "window replace"])
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    mode, tmp_path, bucket, kills
):
    check_kills(bucket, mode, tmp_path, kills)
