"""Writers that meet: no commit is lost, no lease is held twice, nobody reads half a commit."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from dil.errors import CommitConflictError
from dil.model.history import Coverage
from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from tests.contract.state_stores import DAY, START, Place, child, commit_of, outcome

COMMITS = 12


def told(writers: list, line: str) -> list[str]:
    """Let all processes go on at once; return what each one says then, to its end."""
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write(line + "\n")
        writer.stdin.flush()
    found = [writer.communicate(timeout=120)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * len(writers)
    return found


@pytest.mark.long_where(place=["fs", "mysql"])
def test_of_processes_that_race_for_a_lease_one_gets_it(place: Place) -> None:
    body = """
        from dil.errors import CommitConflictError, LeaseHeldError
        print("ready", flush=True)
        sys.stdin.readline()
        answer = None
        while answer is None:
            try:
                answer = store.acquire_lease(sys.argv[1], lease_s=3600).token
            except LeaseHeldError:
                answer = "held"
            except CommitConflictError:  # came second, and is told to try again
                continue
        print(answer, flush=True)
        sys.stdin.read()
    """
    racers = [child(place.spec, body, f"r{number}") for number in range(3)]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 3
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        found = [racer.stdout.readline().strip() for racer in racers]
    finally:
        for racer in racers:
            racer.communicate(timeout=60)
    assert sorted(found) == ["1", "held", "held"]


def test_a_process_whose_lease_was_taken_over_is_refused(place: Place) -> None:
    body = """
        from dil.errors import LeaseLostError
        lease = store.acquire_lease("old", lease_s=1)
        print("ready", flush=True)
        sys.stdin.readline()
        for act in (lambda: store.heartbeat(lease),
                    lambda: store.commit(lease, commit_of("old", outcome(5)))):
            try:
                act()
                print("accepted", flush=True)
            except LeaseLostError:
                print("refused", flush=True)
    """
    with place.open() as store, child(place.spec, body) as old:
        assert old.stdout.readline() == "ready\n"
        place.clock.now += 1_001
        lease = store.acquire_lease("new", lease_s=3600)
        assert lease.token == 2
        found, _ = old.communicate("go\n", timeout=60)
        assert found.split() == ["refused", "refused"]
        assert store.head() is None
        assert store.commit(lease, commit_of("new", outcome(0))) is not None


@pytest.mark.long_where(place=["fs", "mysql"])
def test_no_commit_of_racing_processes_is_lost(place: Place) -> None:
    body = f"""
        from dil.errors import CommitConflictError
        from dil.model.dataset import Lease
        from dil.state.runs.processes import this_process
        lease = Lease("orders", 1, this_process("r", 0))
        print("ready", flush=True)
        sys.stdin.readline()
        me = int(sys.argv[1])
        for number in range({COMMITS}):
            commit = commit_of(f"r{{me}}-{{number}}", outcome(me * 100 + number),
                               moves=moves(file(f"f{{me}}-{{number}}")), schema="s")
            for attempt in range(200):
                try:
                    assert store.commit(lease, commit) is not None
                    break
                except CommitConflictError:
                    continue
            else:
                sys.exit("never came through")
    """
    with place.open() as store:
        store.acquire_lease("r", lease_s=3600)
        told([child(place.spec, body, str(number)) for number in range(3)], "go")
        assert verify_chain(store).problems == ()
        assert sum(1 for _ in store.unit_states()) == 3 * COMMITS
        parts = [
            part["path"]
            for block in store.blocks()
            for part in (block["event"].get("newData") or {}).get("parts", ())
        ]
        assert len(parts) == len(set(parts)) == 3 * COMMITS


@pytest.mark.long_where(place=["fs", "mysql"])
def test_processes_may_make_an_empty_store_at_the_same_moment(place: Place) -> None:
    body = """
        store.close()
        print("ready", flush=True)
        sys.stdin.readline()
        store = place.open(sys.argv[1])
        lease = store.acquire_lease("r1", lease_s=3600)
        assert store.commit(lease, commit_of("r1", outcome(0))) is not None
    """
    told([child(place.spec, body, job) for job in ("a", "b", "c")], "go")
    for job in ("a", "b", "c"):
        with place.open(job) as store:
            assert verify_chain(store).problems == ()
            assert sum(1 for _ in store.unit_states()) == 1


def test_threads_may_share_a_store(store: StateStore) -> None:
    lease = store.acquire_lease("r", lease_s=3600)
    failures: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for number in range(COMMITS):
                store.commit(lease, commit_of(f"r{me}-{number}", outcome(me * 100 + number)))
                store.heartbeat(lease)
                assert store.head() is not None
        except BaseException as error:  # noqa: BLE001 - seen by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert verify_chain(store).problems == ()
    assert sum(1 for _ in store.unit_states()) == 3 * COMMITS


@pytest.fixture
def small_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a listing ask the server again and again."""
    monkeypatch.setattr("dil.state.databases.postgresql_database._ROWS_A_FETCH", 10)
    monkeypatch.setattr("dil.databases.mysql._ROWS_A_FETCH", 10)


@pytest.mark.usefixtures("small_fetches")
def test_a_listing_in_progress_blocks_no_commit_and_sees_one_point_in_time(
    store: StateStore, place: Place
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", *(outcome(day) for day in range(150))))
    listing = store.unit_states()
    next(listing)
    with place.open() as other:
        other.commit(lease, commit_of("r2", *(outcome(day) for day in range(150, 200))))
    store.heartbeat(lease)
    assert sum(1 for _ in listing) == 149
    assert sum(1 for _ in store.unit_states()) == 200


@pytest.mark.usefixtures("small_fetches")
def test_a_listing_that_is_left_early_leaves_the_store_usable(store: StateStore) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", *(outcome(day) for day in range(60))))
    for _ in range(3):
        with closing(store.unit_states()) as listing:
            next(listing)
    assert store.commit(lease, commit_of("r2", outcome(60))) is not None


def test_a_history_is_of_its_moment_while_others_commit(store: StateStore, place: Place) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0), outcome(1)))
    with place.open() as other:
        history = other.history()
        store.commit(lease, commit_of("r2", outcome(2), outcome(3, ok=False)))
        assert history.coverage("u.{}") == Coverage(START, START + 2 * DAY, START + 2 * DAY, 0)
        assert list(history.open_records("u.{}")) == []
        assert len(history.records("u.{}", START, START + 9 * DAY)) == 2


def test_a_commit_that_fails_half_way_leaves_nothing(store: StateStore, place: Place) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", outcome(0)))
    before = store.head()

    class Breaking(tuple):
        """Outcomes of which the last one cannot be read."""

        __slots__ = ()

        def __iter__(self) -> Iterator:
            yield from super().__iter__()
            if len(asked) > 1:
                raise RuntimeError("broken")
            asked.append(1)

    asked: list[int] = []
    with pytest.raises((RuntimeError, CommitConflictError)):
        store.commit(lease, commit_of("r2", outcomes=Breaking((outcome(1), outcome(2)))))
    with place.open() as other:
        assert other.head() == before
        assert [state.signature for state in other.unit_states()] == [outcome(0).signature]
        assert other.commit(lease, commit_of("r2", outcome(1))) is not None
