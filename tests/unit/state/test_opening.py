"""Opening a job's store where fs.uri gives the job another place than before."""

from contextlib import closing
from pathlib import Path

import pytest

from dil.errors import ConfigError
from dil.model.dataset import Commit, RunWork, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.state import open_store

NOW = 1_735_689_600_000


def run(spec: StateSpec, job: str = "orders") -> int:
    """Record a run of a job; return the number of work units that its store knows then."""
    with open_store(spec, job, clock=lambda: NOW) as store:
        number = sum(1 for _ in store.unit_states())
        outcome = WorkUnitOutcome(f"[{number}]", "u.{}", number, number + 1, number + 1, 1)
        work = RunWork((outcome,))
        lease = store.acquire_lease(f"r{number}", lease_s=60)
        store.commit(lease, Commit(f"r{number}", "c", "s", (), (), "", NOW, NOW, work))
        store.release_lease(lease)
        return number + 1


@pytest.fixture
def moved(tmp_path: Path) -> StateSpec:
    """Return a store that fs.uri has moved; the folder of the former one exists."""
    former = StateSpec("sqlite", str(tmp_path / "former"))
    run(former, "another job")
    return StateSpec("sqlite", str(tmp_path / "now"), former=former)


def test_an_empty_store_is_refused_while_the_former_one_has_the_jobs_state(
    moved: StateSpec,
) -> None:
    assert moved.former is not None
    run(moved.former)
    with pytest.raises(ConfigError) as caught:
        open_store(moved, "orders", clock=lambda: NOW)
    (problem,) = caught.value.problems
    assert problem.key == "state.store.dir"
    assert f"is {moved.directory}, from fs.uri or state.store.fs.uri" in problem.what
    assert f"its state is on this machine, in {moved.former.directory}" in problem.what
    assert "dil state copy JOB.conf" in problem.fix
    assert f"state.store.dir=file://{moved.former.directory}" in problem.fix


def test_a_job_without_state_in_the_former_store_begins_in_the_new_one(moved: StateSpec) -> None:
    assert run(moved) == 1


def test_a_job_that_has_state_in_both_stores_goes_on_in_the_new_one(moved: StateSpec) -> None:
    assert moved.former is not None
    run(StateSpec("sqlite", moved.directory))
    run(moved.former)
    assert run(moved) == 2


def test_a_former_folder_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    former = StateSpec("sqlite", str(tmp_path / "former"))
    spec = StateSpec("sqlite", str(tmp_path / "now"), former=former)
    with closing(open_store(spec, "orders", clock=lambda: NOW)) as store:
        assert store.head() is None
    assert list(tmp_path.iterdir()) == []
