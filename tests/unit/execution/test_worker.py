"""What a worker may take of the machine's memory, and what happens beyond it."""

from __future__ import annotations

import os
import pickle
import re
import resource
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from dil.execution.worker import GIB, limited, memory_limit, usual_limit, workers_at_once

MIB = 1024**2
T = TypeVar("T")


def in_a_process(act: Callable[[], T]) -> T:
    """Return what a function returns in a process of its own, whose limits are nobody else's."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(there, pickle.dumps(act()))
            os._exit(0)
        finally:  # the rest of the tests is the parent's
            traceback.print_exc()
            os._exit(1)
    os.close(there)
    with os.fdopen(here, "rb") as told:
        found = told.read()
    assert os.waitpid(child, 0)[1] == 0
    return pickle.loads(found)


def takes(size: int) -> bool:
    try:
        return bool(bytearray(size))
    except MemoryError:
        return False


@pytest.mark.slow
def test_what_goes_beyond_the_limit_fails_and_the_process_goes_on() -> None:
    def act() -> tuple[bool, bool, bool, bool]:
        with limited(1500 * MIB):
            inside = takes(100 * MIB), takes(1600 * MIB), takes(100 * MIB)
        return (*inside, takes(1600 * MIB))

    assert in_a_process(act) == (True, False, True, True)


def test_arrow_keeps_to_the_limit() -> None:
    import pyarrow as pa

    def act() -> bool:
        with limited(1500 * MIB):
            try:
                pa.nulls(400_000_000, pa.int64())
            except MemoryError:
                return True
        return False

    assert in_a_process(act)


@pytest.mark.slow
def test_what_was_taken_before_counts() -> None:
    def act() -> tuple[bool, bool]:
        held = bytearray(b"x") * (600 * MIB)
        facts = Path("/proc/self/status").read_text()
        taken = int(re.findall(r"RssAnon:\s*(\d+) kB", facts)[0]) * 1024
        assert taken > len(held)
        with limited(taken + 400 * MIB):
            return takes(300 * MIB), takes(taken + 100 * MIB)

    assert in_a_process(act) == (True, False)


@pytest.mark.slow
def test_half_of_the_limit_is_there_whatever_a_worker_did_before() -> None:
    def act() -> tuple[bool, bool]:
        held = bytearray(b"x") * (700 * MIB)
        with limited(600 * MIB):
            return takes(len(held) // 3), takes(400 * MIB)

    assert in_a_process(act) == (True, False)


@pytest.mark.parametrize("most", [0, 1500 * MIB])
def test_the_process_has_the_limit_of_before_afterwards(most: int) -> None:
    def act() -> bool:
        before = resource.getrlimit(resource.RLIMIT_DATA)
        with limited(most):
            pass
        return resource.getrlimit(resource.RLIMIT_DATA) == before

    assert in_a_process(act)


def test_a_lower_limit_of_others_stays() -> None:
    def act() -> int:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (3 * GIB, hard))
        with limited(100 * GIB):
            return resource.getrlimit(resource.RLIMIT_DATA)[0]

    assert in_a_process(act) == 3 * GIB


@pytest.fixture
def machine_of_64_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dil.execution.worker.machine_memory_bytes", lambda: 64 * GIB)


@pytest.mark.usefixtures("machine_of_64_gib")
def test_the_job_s_own_limit_counts_and_else_a_share_of_the_machine() -> None:
    assert memory_limit(5 * GIB, 4) == 5 * GIB
    assert memory_limit(0, 4) == 0
    assert memory_limit(None, 4) == 8 * GIB
    assert memory_limit(None) == usual_limit(64 * GIB, os.cpu_count() or 1)


def test_workers_share_half_of_the_machine_and_each_gets_a_gib_if_there_is_one() -> None:
    assert usual_limit(64 * GIB, 4) == 8 * GIB
    assert usual_limit(8 * GIB, 10) == GIB
    assert usual_limit(GIB, 10) == 768 * MIB


@pytest.mark.usefixtures("machine_of_64_gib")
@pytest.mark.parametrize(("workers", "most"), [(1, 6 * GIB), (32, GIB)])
def test_spark_s_own_limit_of_python_counts_where_it_is_lower(workers: int, most: int) -> None:
    def act() -> int:
        resource.setrlimit(resource.RLIMIT_AS, (6 * GIB, resource.RLIM_INFINITY))
        return memory_limit(None, workers)

    assert in_a_process(act) == most


@pytest.mark.parametrize(
    ("master", "settings", "workers"),
    [
        ("local[3,4]", {}, 3),
        ("yarn", {"spark.executor.cores": "4"}, 4),
        ("yarn", {"spark.executor.cores": "4", "spark.task.cpus": "2"}, 2),
        ("spark://h:7077", {}, 0),
    ],
)
def test_how_many_workers_a_machine_runs_is_known_by_spark(master, settings, workers) -> None:
    conf = SimpleNamespace(get=settings.get)
    context = SimpleNamespace(master=master, defaultParallelism=3, getConf=lambda: conf)
    assert workers_at_once(context) == workers
