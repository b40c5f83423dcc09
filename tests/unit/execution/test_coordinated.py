"""The coordinator lives as long as the tasks do, and only where a job shares something."""

from __future__ import annotations

import pickle
import select
import socket
import threading
from pathlib import Path

import pytest
from msgspec import structs

from dil import config, coordination
from dil.coordination.client import DriverServices
from dil.coordination.services import TaskCoordinator
from dil.errors import QuotaError
from dil.execution.coordinated import BindAddress, CoordinatedRun, coordinated
from dil.model.job import Job
from dil.model.secret import Secret
from dil.model.task import CoordinatorAddress, Failure, RunContext
from dil.model.work_unit import Reason
from dil.spi.coordination import Uncoordinated
from dil.spi.shared import Shared
from tests.jobs import write_job
from tests.micro_batches import unit
from tests.servers.token_server import CLIENT, CLIENT_SECRET, TokenServer


def job(folder: Path, **changes: str) -> Job:
    return config.load(write_job(folder, "http://127.0.0.1:1", **changes), environ={}).job


def run(folder: Path, **changes: str) -> RunContext:
    return RunContext(job(folder, **changes), "run-1", 0, full_extract=False, staging_dir="")


def is_listening(address: CoordinatorAddress) -> bool:
    try:
        socket.create_connection((address.host, address.port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_job_that_shares_nothing_opens_no_port(tmp_path):
    plain = run(tmp_path)
    with coordinated(plain, BindAddress()) as shared:
        assert shared == CoordinatedRun(plain)
        assert shared.spent() is None
        assert not coordination.is_spent(shared.run)
        assert not shared.ends_by_itself(Failure("DIL-QUOTA", "x"))
        with coordination.task_coordinator(shared.run) as coordinator:
            assert isinstance(coordinator, Uncoordinated)


@pytest.mark.parametrize(
    "changes", [{"ms__http__rate__limit": "10/s"}, {"ms__http__requests__max": "5"}]
)
def test_the_port_is_open_for_the_time_of_the_tasks_and_no_longer(tmp_path, changes):
    with coordinated(run(tmp_path, **changes), BindAddress(tasks=7)) as shared:
        address = shared.run.coordinator
        assert is_listening(address)
        assert address.tasks == 7

    assert not is_listening(address)


def test_the_port_is_closed_after_a_failure(tmp_path):
    addresses = []

    def fail() -> None:
        with coordinated(run(tmp_path, ms__http__rate__limit="10/s"), BindAddress()) as shared:
            addresses.append(shared.run.coordinator)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not is_listening(addresses[0])


def test_a_spent_quota_lets_no_work_unit_begin_and_those_under_way_end(tmp_path):
    with coordinated(run(tmp_path, ms__http__requests__max="1"), BindAddress()) as shared:
        with coordination.task_coordinator(shared.run) as task:
            assert task.permit() == 0.0
            assert not coordination.is_spent(shared.run)
            with pytest.raises(QuotaError):
                task.permit()

        assert coordination.is_spent(shared.run)
        assert "no further work unit was begun" in shared.spent().error
        assert not shared.ends_by_itself(Failure("DIL-LEASE-LOST", "gone"))


def test_a_work_unit_asks_the_driver_again_that_did_not_answer_the_one_before(tmp_path):
    with (
        coordinated(run(tmp_path, ms__http__rate__limit="10/s"), BindAddress()) as shared,
        Shared() as kept,
    ):
        assert not coordination.is_spent(shared.run, kept)
        kept.get(DriverServices, pytest.fail).is_lost = True
        assert shared.ends_by_itself(Failure("DIL-QUOTA", "402"))
        assert coordination.is_spent(shared.run, kept)


def test_a_quota_that_one_task_met_is_told_to_all(tmp_path):
    with coordinated(run(tmp_path, ms__http__rate__limit="10/s"), BindAddress()) as shared:
        assert shared.ends_by_itself(Failure("DIL-QUOTA", "402"))
        assert coordination.is_spent(shared.run)


def test_without_spark_a_coordinator_is_an_object_with_the_same_services(tmp_path):
    slept: list[float] = []
    assert isinstance(coordination.local_coordinator(job(tmp_path)), Uncoordinated)
    limited = coordination.local_coordinator(
        job(tmp_path, ms__http__rate__limit="1/h"), slept.append
    )

    assert isinstance(limited, TaskCoordinator)
    assert limited.permit() == 0.0
    assert slept == []


def test_without_spark_a_coordinator_fetches_tokens(tmp_path):
    with TokenServer() as server:
        members = (
            f'{{"method":"oauth2","grant":"client_credentials","tokenUri":"{server.url}",'
            f'"clientId":"{CLIENT}","clientSecret":"{CLIENT_SECRET}"}}'
        )
        coordinator = coordination.local_coordinator(job(tmp_path, ms__authentication=members))

        assert coordinator.credential() == Secret("access-1")
        assert coordinator.credential(Secret("access-1")) == Secret("access-2")


def test_the_secrets_of_a_grant_stay_on_the_driver(tmp_path):
    members = (
        '{"method":"oauth2","grant":"client_credentials","tokenUri":"https://login.test/token",'
        '"clientId":"dil","clientSecret":"client-canary","parameters":{"client_assertion":"a-canary"}}'
    )
    whole = run(tmp_path, ms__authentication=members)
    assert b"client-canary" in pickle.dumps(whole)
    with coordinated(whole, BindAddress()) as shared:
        sent = pickle.dumps(shared.run)
        found = shared.run.job.properties

    assert b"canary" not in sent
    assert found["ms.authentication"].is_fetched
    assert found.origin("job.name") == whole.job.properties.origin("job.name")
    assert found.explicit == whole.job.properties.explicit


@pytest.mark.slow
def test_strangers_hold_few_threads_and_tasks_come_through_when_they_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dil.coordination.server._MOST_STRANGERS", 3)
    with coordinated(run(tmp_path, ms__http__requests__max="5"), BindAddress()) as shared:
        address = shared.run.coordinator
        before = threading.active_count()
        strangers = [socket.create_connection((address.host, address.port)) for _ in range(40)]
        greeted, waiting = strangers[:3], strangers[3:]
        assert all(select.select([each], [], [], 10)[0] for each in greeted)
        assert select.select(waiting, [], [], 1)[0] == []
        assert threading.active_count() <= before + 3
        for stranger in strangers:
            stranger.close()
        with coordination.task_coordinator(shared.run) as task:
            assert task.permit() == 0.0


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, ["again", "new", "failed"]),
        ({"ms__http__requests__max": "5"}, ["new", "failed", "again"]),
    ],
)
def test_a_budget_is_for_new_and_failed_work_units_first(tmp_path, changes, order):
    reasons = {"again": Reason.INCREMENTAL, "new": Reason.NEW, "failed": Reason.RETRY}
    units = [structs.replace(unit(0), signature=n, reason=r) for n, r in reasons.items()]
    found = coordination.in_starting_order(job(tmp_path, **changes), units)
    assert [each.signature for each in found] == order
