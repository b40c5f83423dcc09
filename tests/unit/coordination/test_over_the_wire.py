"""The services behind their port: tasks in threads and processes, strangers, a lost driver."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection

import pytest

from dil.coordination import client
from dil.coordination.client import DriverServices
from dil.coordination.pace import Ticket
from dil.coordination.server import CoordinatorServer
from dil.coordination.services import RequestLimits, RunServices, SharedTotals
from dil.coordination.wire import greet, seal, unseal
from dil.errors import (
    AuthenticationError,
    DilError,
    ExecutionError,
    PluginFailureError,
    QuotaError,
    SourceError,
    TransientSourceError,
)
from dil.model.secret import Secret
from dil.model.task import CoordinatorAddress
from dil.secrets import learned, masking
from dil.spi.coordination import Credential, CredentialSource

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"


class Numbered(CredentialSource):
    """Gives token-1, token-2 and so on."""

    def __init__(self, failure: DilError | None = None) -> None:
        self.fetched = 0
        self.failure = failure
        self.gate: threading.Event | None = None

    def fetch(self) -> Credential:
        if self.gate is not None:
            self.gate.wait(10)
        self.fetched += 1
        if self.failure is not None:
            raise self.failure
        return Credential(Secret(f"token-{self.fetched}"), 3600)


@pytest.fixture
def source() -> Numbered:
    return Numbered()


@pytest.fixture
def run_services(source: Numbered) -> RunServices:
    return RunServices(
        RequestLimits(interval_s=10.0, most_requests=1000), source, clock=lambda: 0.0
    )


@pytest.fixture
def server(run_services: RunServices) -> Iterator[CoordinatorServer]:
    with CoordinatorServer(run_services, HOST, tasks=4) as running:
        yield running


@pytest.fixture
def services(server: CoordinatorServer) -> Iterator[DriverServices]:
    with closing(DriverServices(server.address, RequestLimits(10.0, 1000))) as line:
        yield line


def test_slots_of_all_tasks_are_apart_by_the_interval(server):
    def ask(_: int) -> list[float]:
        with closing(DriverServices(server.address, RequestLimits(10.0))) as line:
            return [line.ticket(None).slot for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        slots = sorted(slot for found in pool.map(ask, range(8)) for slot in found)

    assert slots == [10.0 * number for number in range(40)]


def test_one_line_serves_many_threads(services):
    with ThreadPoolExecutor(8) as pool:
        slots = sorted(pool.map(lambda _: services.ticket(None).slot, range(40)))

    assert slots == [10.0 * number for number in range(40)]


def test_a_ticket_comes_back_as_it_was_given(services):
    services.ticket(None)
    ticket = services.ticket(None)

    assert ticket.wait_s == 10.0
    assert services.ticket(ticket) == ticket


def test_all_tasks_get_the_same_token_and_one_new_one_when_it_is_refused(server, source):
    def ask(rejected: Secret | None) -> str:
        with closing(DriverServices(server.address, RequestLimits())) as line:
            return line.credential(rejected).reveal()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(ask, [None] * 12)) == {"token-1"}
        assert set(pool.map(ask, [Secret("token-1")] * 12)) == {"token-2"}
    assert source.fetched == 2


def test_a_task_learns_the_token_that_it_is_given(services, monkeypatch):
    services.credential(None)
    # The driver, which has learned the token as well, is another process.
    monkeypatch.setattr(masking, "_learned", [()])
    services.credential(None)

    assert learned() == (Secret("token-1"),)


def test_what_tasks_tell_reaches_the_driver(services, run_services):
    services.progress(2, 30, 400)
    services.slow_down(33)
    assert services.ticket(None).wait_s == 33.0
    assert services.spent() == ""
    services.quota_spent("enough")

    assert run_services.totals == SharedTotals(2, 30, 400)
    assert run_services.spent() == services.spent() == "enough"
    with pytest.raises(QuotaError, match="enough") as caught:
        services.ticket(None)
    assert caught.value.fix


@pytest.mark.parametrize(
    "failure",
    [
        AuthenticationError("no", "do this"),
        TransientSourceError("later", "wait", 12.5),
        SourceError("odd", "look"),
        PluginFailureError("broken", "mend"),
    ],
)
def test_errors_of_a_source_of_tokens_arrive_as_they_were(failure):
    with (
        CoordinatorServer(RunServices(RequestLimits(), Numbered(failure)), HOST) as server,
        closing(DriverServices(server.address, RequestLimits())) as line,
        pytest.raises(type(failure)) as caught,
    ):
        line.credential(None)

    assert (caught.value.message, caught.value.fix) == (failure.message, failure.fix)
    assert getattr(caught.value, "retry_after_s", None) == getattr(failure, "retry_after_s", None)


def _ask_in_process(address: CoordinatorAddress, answers: multiprocessing.Queue) -> None:
    with closing(DriverServices(address, RequestLimits(10.0))) as line:
        slots = [line.ticket(None).slot for _ in range(5)]
        answers.put((slots, line.credential(None).reveal()))


def test_tasks_in_other_processes_share_slots_and_token(server):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [
        context.Process(target=_ask_in_process, args=(server.address, answers)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)

    assert sorted(slot for slots, _ in found for slot in slots) == [
        10.0 * number for number in range(15)
    ]
    assert {token for _, token in found} == {"token-1"}


def test_a_refusal_in_words_that_were_cut_inside_a_character_is_no_lost_driver(services, source):
    source.failure = AuthenticationError("who is caf\ud83d?", "Check clientId.")

    with pytest.raises(AuthenticationError):
        services.credential(None)
    assert not services.is_lost


def test_a_driver_that_says_nothing_is_not_waited_for_without_end(services, source, monkeypatch):
    monkeypatch.setattr(client, "_TOKEN_S", 0.05)
    source.gate = threading.Event()
    try:
        with pytest.raises(TransientSourceError, match="the driver does not answer"):
            services.credential(None)
        assert services.is_lost
    finally:
        source.gate.set()


def test_a_stranger_without_the_key_is_turned_away_and_others_are_served(
    server, run_services, services
):
    link = socket.create_connection((HOST, server.address.port))
    with pytest.raises((multiprocessing.AuthenticationError, EOFError, OSError)):
        greet(link, b"x" * 32, as_server=False)

    assert services.ticket(None).slot == 0.0
    assert run_services.totals == SharedTotals()


def test_a_task_does_not_tell_its_key_or_secrets_to_a_server_that_does_not_know_it():
    listener = socket.create_server((HOST, 0))
    accepted: list[Connection] = []

    def impostor() -> None:
        link, _ = listener.accept()
        try:
            accepted.append(greet(link, b"y" * 32, as_server=True))
        except (multiprocessing.AuthenticationError, EOFError, OSError):
            return

    thread = threading.Thread(target=impostor)
    thread.start()
    address = CoordinatorAddress(HOST, listener.getsockname()[1], b"k" * 32)
    with (
        closing(DriverServices(address, RequestLimits())) as line,
        pytest.raises(TransientSourceError, match="there is no token to send"),
    ):
        line.credential(None)
    thread.join(20)
    listener.close()

    assert accepted == []


def test_a_task_asks_nothing_of_a_server_that_proves_nothing():
    near, far = socket.socketpair()

    def impostor() -> None:
        with closing(Connection(far.detach())) as connection:
            connection.send_bytes(b"#CHALLENGE#" + bytes(20))
            connection.recv_bytes()
            connection.send_bytes(b"#WELCOME#")
            connection.recv_bytes()
            connection.send_bytes(bytes(16))  # no answer to the task's challenge
            connection.recv_bytes()

    thread = threading.Thread(target=impostor)
    thread.start()
    with pytest.raises(multiprocessing.AuthenticationError):
        greet(near, b"k" * 32, as_server=False)
    thread.join(20)


def test_only_the_greeting_has_a_limit_of_time():
    near, far = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(greet, far, b"k" * 32, as_server=True)
        connections = (greet(near, b"k" * 32, as_server=False), other.result())
    for connection in connections:
        with closing(connection), socket.socket(fileno=os.dup(connection.fileno())) as link:
            limit = link.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)
            assert limit == bytes(16)


def test_nonsense_ends_a_connection_and_no_more(server, services):
    link = socket.create_connection((HOST, server.address.port))
    with closing(greet(link, server.address.key, as_server=False)) as connection:
        connection.send_bytes(b'{"type":"RunThis","code":"rm"}')
        with pytest.raises((EOFError, OSError)):
            connection.recv_bytes()

    assert services.ticket(None).slot == 0.0


def test_the_token_does_not_travel_in_the_clear():
    key = b"k" * 32
    sealed = seal(Secret("s3cret-token"), key)

    assert b"s3cret" not in sealed
    assert unseal(sealed, key) == Secret("s3cret-token")
    with pytest.raises(ValueError, match="changed on its way"):
        unseal(sealed[:-1] + bytes([sealed[-1] ^ 1]), key)


# The driver is gone


@pytest.fixture
def gone(server: CoordinatorServer) -> CoordinatorAddress:
    server.close()
    return replace(server.address, tasks=4)


def test_without_the_driver_a_task_takes_its_share_of_the_rate_and_says_so_once(gone, caplog):
    with (
        caplog.at_level(logging.WARNING, "dil"),
        closing(DriverServices(gone, RequestLimits(interval_s=10.0))) as line,
    ):
        slots = [line.ticket(None).slot for _ in range(4)]

    apart = [after - before for before, after in itertools.pairwise(slots)]
    assert apart == pytest.approx([40.0] * 3)
    assert len(caplog.records) == 1
    assert "1/4 of the job's rate" in caplog.text


def test_without_the_driver_a_quota_ends_at_least_this_task(gone):
    with closing(DriverServices(gone, RequestLimits())) as line:
        line.slow_down(500)
        assert line.ticket(None).wait_s > 400
        line.progress(1, 2, 3)
        line.quota_spent("over")

        assert line.spent() == "over"
        with pytest.raises(QuotaError):
            line.ticket(None)


def test_without_the_driver_a_budget_is_not_spent_twice(gone):
    with (
        closing(DriverServices(gone, RequestLimits(most_requests=10))) as line,
        pytest.raises(TransientSourceError, match=r"ms.http.requests.max cannot be kept") as caught,
    ):
        line.ticket(None)

    assert "spark.driver.host" in caught.value.fix


def test_a_driver_that_ends_while_tasks_are_connected_is_noticed(server):
    with closing(DriverServices(server.address, RequestLimits(10.0))) as line:
        assert line.ticket(None).slot == 0.0
        server.close()

        with pytest.raises(TransientSourceError, match="does not answer"):
            line.credential(None)


def test_a_slot_of_a_driver_that_is_gone_is_not_waited_for_by_another_clock(server):
    with closing(DriverServices(server.address, RequestLimits(10.0))) as line:
        line.ticket(None)
        server.close()

        assert line.ticket(Ticket(1e9, 1e12)).wait_s == 0.0
        assert line.ticket(None).wait_s > 30


def test_closing_twice_and_with_nobody_there_ends_the_listening(run_services):
    server = CoordinatorServer(run_services, HOST)
    server.close()
    server.close()

    assert "dil-coordinator" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((HOST, server.address.port))


def test_an_address_of_another_machine_cannot_be_listened_at(run_services):
    with pytest.raises(ExecutionError, match=r"192\.0\.2\.1"):
        CoordinatorServer(run_services, "192.0.2.1")


def test_the_address_never_prints_the_key(server):
    assert str(server.address.key) not in repr(server.address)
