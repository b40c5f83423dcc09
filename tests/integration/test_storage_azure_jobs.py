"""Whole jobs that publish to a container: every mode, state beside the data, readers, kills."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dil import acts, config
from dil.acts import FileDecision, Selection
from dil.errors import ConfigError
from dil.job import RunOptions, run_job
from dil.model.job import StateSpec
from dil.model.report import RunStatus
from tests.contract.state_stores import Place
from tests.contract.test_state_store_races import (  # noqa: F401 - these very tests, on Azure
    test_a_commit_that_fails_half_way_leaves_nothing,
    test_a_process_whose_lease_was_taken_over_is_refused,
    test_no_commit_of_racing_processes_is_lost,
    test_of_processes_that_race_for_a_lease_one_gets_it,
)
from tests.integration.azure_places import Container, use
from tests.integration.killed_jobs import check_kills
from tests.integration.test_storage_jobs import MODES, ids, listed, visible
from tests.integration.test_storage_jobs import on_s3 as on_remote
from tests.jobs import ROOT, run
from tests.servers.azurite import Azurite
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, executor, failing, ids_of, work_unit
from tests.torture.kills import KillServer


@pytest.fixture(scope="module")
def azurite():
    with Azurite() as server, pytest.MonkeyPatch.context() as patch:
        use(server, patch)
        yield server


@pytest.fixture
def container(azurite):
    return Container(azurite)


@pytest.fixture
def source():
    dataset = Dataset.generate(6 * 4, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(dataset) as server:
        yield server


@pytest.fixture
def place(container):
    return Place(StateSpec("filelog", f"{container.uri}/state"), traces=container.keys)


@pytest.fixture
def store(place):
    with place.open() as opened:
        yield opened


@pytest.mark.parametrize("mode", MODES)
def test_every_row_is_there_once_after_each_run(mode, container, source, tmp_path):
    story = Story(tmp_path, source, **on_remote(container, **MODES[mode]))
    for number in (2, 4):
        report = story.run(day(number))
        assert report.status is RunStatus.SUCCESS
        assert all(uri.startswith(f"{container.uri}/lake/shop/orders/") for uri in report.files)
        assert ids(container, visible(container)) == ids_of("a", "b", days=range(number))
        assert visible(container) == listed(container)
    assert story.run(day(4)).status in {RunStatus.NOTHING_DUE, RunStatus.SUCCESS}
    assert ids(container, visible(container)) == ids_of("a", "b", days=range(4))
    assert container.keys("lake/_staging/") == []
    assert container.keys("state/orders-") != []
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["orders.conf"]


def test_work_that_a_failed_run_completed_is_adopted(container, source, tmp_path):
    story = Story(tmp_path, source, **on_remote(container))
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).status is RunStatus.FAILED
    assert visible(container) == []
    source.faults.clear()
    assert story.run(day(2)).units.adopted == 3
    assert ids(container, visible(container)) == ids_of("a", "b", days=range(2))


def test_secondary_input_is_read_from_a_dataset_in_the_container(container, source, tmp_path):
    dated = [{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}}]
    units = Story(
        tmp_path / "units", source,
        **on_remote(
            container,
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
    path = f"{container.uri}/lake/shop/units".replace("abfss:", "wasbs:").replace(".dfs.", ".blob.")
    entry = {"path": path, "fields": ["unit"]}
    changes = {"ms__watermark": json.dumps(dated), "ms__secondary__input": json.dumps([entry])}
    reader = Story(tmp_path / "reader", source, **on_remote(container, **changes))
    assert reader.run(day(1)).status is RunStatus.SUCCESS
    found = [key for key in visible(container) if "/orders/" in key]
    assert ids(container, found) == ids_of("a", "b", days=range(1))


def test_an_operator_takes_files_out_and_brings_them_back(container, source, tmp_path):
    story = Story(tmp_path, source, **on_remote(container))
    story.run(day(2))
    before = container.objects("lake/shop/orders/part-")
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
    assert ids(container, visible(container)).total() == 12
    act("undo", acts.propose_undo)
    assert container.objects("lake/shop/orders/part-") == before
    assert visible(container) == listed(container)


def test_two_jobs_that_do_not_both_append_are_kept_apart(container, source, tmp_path):
    Story(tmp_path / "one", source, **on_remote(container)).run(day(1))
    changes = on_remote(container, job__name="other", ms__publish__mode="replace")
    with pytest.raises(ConfigError, match="belongs to job orders"):
        Story(tmp_path / "other", source, **changes).run(day(1))


def test_validate_and_a_plan_by_local_state_load_no_client_of_azure(container, source, tmp_path):
    Story(tmp_path, source, data__publisher__final__dir=f"{container.uri}/lake").job()
    code = (
        "import atexit, sys; from dil.cli.main import main\n"
        "seen = {'pyarrow', 'azure.core', 'azure.storage.blob', 'azure.identity', 'pyspark'}\n"
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


def test_the_example_publishes_to_a_container(container):
    places = {"data.publisher.final.dir": "lake", "state.store.dir": "state"}
    overrides = {key: f"{container.uri}/{name}" for key, name in places.items()}
    conf = ROOT / "conf" / "examples" / "files" / "azure.conf"
    job = config.load(conf, overrides=overrides, environ={}).job
    now = 1_767_225_600_000
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), run_id="r1")
    report = run_job(job, options)
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 216)
    assert [key.rpartition("/")[0] for key in visible(container)] == ["lake/weather_lake"] * 3


def test_tasks_of_spark_reach_the_container(container, source, tmp_path):
    Story(tmp_path, source, **on_remote(container)).job()
    done = run(tmp_path / "orders.conf", "2020-01-03T00:00:00Z")
    assert done.returncode == 0, done.stderr
    assert ids(container, visible(container)) == ids_of("a", "b", days=range(2))
    assert visible(container) == listed(container)


@pytest.fixture(scope="module")
def kills(azurite):
    with KillServer() as server:
        yield server


@pytest.mark.parametrize("mode", ["append", "window replace"])
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    mode, tmp_path, container, kills
):
    check_kills(container, mode, tmp_path, kills)
