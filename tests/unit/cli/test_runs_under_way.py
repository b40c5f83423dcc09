"""``dil runs`` tells a run that is under way from one that died; stale consent is none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.execution.executor import Execution
from dil.publishing.publisher import Publisher
from dil.run import lease
from dil.state import open_store
from tests.killed import KilledError, killed
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, executor, ids_of


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


@pytest.fixture
def dil(story: Story, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(verb: str, *options: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["runs", verb, str(story.folder / "orders.conf"), *options]) == code
        return capsys.readouterr().out

    return call


class Looking:
    """Executes work units, then looks around while the run still holds its lease."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def execute(self, run: object, units: list, watch: object) -> Execution:
        done = executor().execute(run, units, watch)
        self._look()
        return done


def test_a_run_that_is_under_way_is_told_with_its_process(
    story: Story, dil: Callable[..., str]
) -> None:
    told: dict[str, str] = {}

    def look() -> None:
        told["list"] = dil("list")
        told["json"] = dil("list", "--json")
        told["show"] = dil("show", "run-1")
        told["clean"] = dil("clean")
        dil("clean", "--yes", code=3)

    # Leases are real: the command line compares with the real clock.
    story.clock = 10**14
    story.run(day(1), executor=Looking(look))

    (run,) = json.loads(told["json"])
    assert (run["status"], run["holder"]["pid"]) == ("running", os.getpid())
    assert " running " in told["list"]
    assert f"running, process {os.getpid()} on" in told["show"]
    assert f"run by process {os.getpid()} on" in told["clean"]
    assert "cannot use them" not in told["clean"]
    assert "a run is active, and may need the files" in told["clean"]
    assert " success " in dil("list")


def test_a_run_without_an_end_that_nobody_is_at_crashed(
    story: Story, dil: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "make_visible", killed)
        patch.setattr(type(story.store()), "end_run", killed)
        with pytest.raises(KilledError):
            story.run(day(1))

    (run,) = json.loads(dil("list", "--json"))
    assert (run["status"], run["holder"]) == ("crashed", None)
    assert " crashed " in dil("list")
    assert "crashed\n" in dil("show", "run-1")
    (left,) = json.loads(dil("clean", "--json"))["leftovers"]
    assert left["status"] == "crashed"
    assert "--yes does it" in dil("clean")


def test_files_that_get_lost_after_consent_are_not_left_out_unasked(
    story: Story, dil: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", killed)
        with pytest.raises(KilledError):
            story.run(day(1))
    leased, kept = lease.leased, {}

    @contextmanager
    def late(*arguments: object) -> Iterator[object]:
        part = next(path for path in story.staged() if path.suffix == ".parquet")
        kept[part] = part.read_bytes()
        part.unlink()
        with leased(*arguments) as lease:
            yield lease

    with monkeypatch.context() as patch:
        patch.setattr("dil.cli.runs.leased", late)
        told = dil("finish", "--yes", code=2)

    assert "nothing was done; restore the files" in told
    assert story.rows() == {}
    for part, data in kept.items():
        part.write_bytes(data)
    dil("finish", "--yes")
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_the_store_tells_who_holds_the_lease_until_it_is_given_back(story: Story) -> None:
    job = story.job()
    with open_store(job.state, job.name, clock=lambda: story.clock) as store:
        assert store.lease_holder() is None
        lease = store.acquire_lease("run-1", lease_s=60)
        assert store.lease_holder() == lease.holder
        story.clock += 60_000
        assert store.lease_holder() is None
        story.clock -= 1
        assert store.lease_holder() == lease.holder
        store.release_lease(lease)
        assert store.lease_holder() is None
