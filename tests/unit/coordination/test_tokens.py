"""One token for all: fetched once, renewed ahead of its end, never one that was refused."""

from __future__ import annotations

import threading

import pytest

from dil.coordination.tokens import TokenKeeper
from dil.errors import AuthenticationError, DilError, PluginFailureError, TransientSourceError
from dil.model.secret import Secret
from dil.secrets import learned
from dil.spi.coordination import Credential, CredentialSource
from tests.servers.waiting import wait_until
from tests.unit.coordination.clocks import Clock


class Source(CredentialSource):
    """Gives t1, t2 and so on, or fails; waits for ``gate`` where there is one."""

    def __init__(self, lifetime_s=3600.0, margin_s=None, failures=(), gate=None, same=""):
        self.lifetime_s = lifetime_s
        self.margin_s = margin_s
        self.failures = list(failures)
        self.gate = gate
        self.same = same
        self.fetched = 0

    def fetch(self) -> Credential:
        self.fetched += 1
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        return Credential(Secret(self.same or f"t{self.fetched}"), self.lifetime_s, self.margin_s)


def keeper(source: Source) -> tuple[TokenKeeper, Clock]:
    clock = Clock()
    return TokenKeeper(source, clock), clock


def test_a_good_token_is_given_again_and_again():
    source = Source()
    tokens, _ = keeper(source)

    assert {tokens.token().reveal() for _ in range(5)} == {"t1"}
    assert source.fetched == 1


@pytest.mark.parametrize(
    ("lifetime", "margin", "good_for"),
    [
        (3600, None, 3240),
        (200, None, 170),
        (40, None, 20),
        (3600, 600.0, 3000),
        (3600, 0.0, 3600),
        (3600, 9999.0, 1800),
    ],
)
def test_a_token_is_renewed_ahead_of_its_end(lifetime, margin, good_for):
    source = Source(lifetime, margin)
    tokens, clock = keeper(source)
    tokens.token()
    clock.now += good_for - 0.001
    assert tokens.token().reveal() == "t1"
    clock.now += 0.002

    assert tokens.token().reveal() == "t2"


def test_a_token_without_a_lifetime_lasts_until_it_is_refused():
    source = Source(None)
    tokens, clock = keeper(source)
    first = tokens.token()
    clock.now += 1e9

    assert tokens.token() == first
    assert tokens.token(first).reveal() == "t2"


def test_a_refused_token_is_never_given_again_however_late_its_refusal_is_told():
    source = Source()
    tokens, _ = keeper(source)
    first = tokens.token()
    second = tokens.token(first)

    assert tokens.token(first) == second
    assert source.fetched == 2


def test_the_same_token_once_more_is_an_error_and_not_an_endless_exchange():
    source = Source(same="always")
    tokens, _ = keeper(source)
    token = tokens.token()

    with pytest.raises(AuthenticationError, match="the same token was issued again"):
        tokens.token(token)


def test_many_tasks_at_once_fetch_one_token():
    gate = threading.Event()
    source = Source(gate=gate)
    tokens, _ = keeper(source)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(tokens.token().reveal())) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(10)

    assert found == ["t1"] * 16
    assert source.fetched == 1


def test_a_refused_grant_is_asked_for_once_in_a_run():
    source = Source(failures=[AuthenticationError("invalid_client")])
    tokens, clock = keeper(source)
    for _ in range(3):
        with pytest.raises(AuthenticationError, match="invalid_client"):
            tokens.token()
        clock.now += 3600

    assert source.fetched == 1


def test_after_an_outage_the_next_one_who_asks_tries_again():
    source = Source(failures=[TransientSourceError("503")])
    tokens, _ = keeper(source)
    with pytest.raises(TransientSourceError):
        tokens.token()

    assert tokens.token().reveal() == "t2"


class CountingLock:
    """A lock that tells how many have come to it."""

    def __init__(self) -> None:
        self.came = 0
        self._lock = threading.Lock()
        self._counting = threading.Lock()

    def __enter__(self) -> None:
        with self._counting:
            self.came += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_those_who_waited_for_a_failing_fetch_get_its_failure_and_do_not_ask_in_turn():
    gate = threading.Event()
    source = Source(gate=gate, failures=[TransientSourceError("503")] * 99)
    tokens, _ = keeper(source)
    tokens._lock = lock = CountingLock()
    failures: list[DilError] = []

    def ask() -> None:
        try:
            tokens.token()
        except DilError as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: lock.came == 8)
    gate.set()
    for thread in threads:
        thread.join(10)

    assert len(failures) == 8
    assert source.fetched == 1


def test_a_short_outage_of_the_giver_does_no_harm_while_the_token_is_good():
    source = Source(1000, failures=[None, TransientSourceError("503"), TransientSourceError("503")])
    tokens, clock = keeper(source)
    tokens.token()
    clock.now += 950
    assert tokens.token().reveal() == "t1"
    assert tokens.token().reveal() == "t1"
    assert source.fetched == 2
    clock.now += 51

    with pytest.raises(TransientSourceError):
        tokens.token()
    assert tokens.token().reveal() == "t4"


def test_a_foreign_exception_of_a_source_is_an_error_of_the_plug_in():
    source = Source(failures=[RuntimeError("boom")])
    tokens, _ = keeper(source)

    with pytest.raises(PluginFailureError, match=r"Source: RuntimeError: boom"):
        tokens.token()


def test_the_process_learns_every_token_to_mask_it():
    tokens, _ = keeper(Source(same="learned-by-keeper"))
    tokens.token()

    assert Secret("learned-by-keeper") in learned()
