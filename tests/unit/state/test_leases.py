"""Who counts as gone; the rest of the lease is in the contract suite."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dil.model.dataset import LeaseHolder
from dil.state.runs import processes
from dil.state.runs.processes import is_gone, start_mark, this_process


def test_this_process_is_not_gone() -> None:
    holder = this_process("r1", 5)
    assert (holder.host, holder.pid) == (socket.gethostname(), os.getpid())
    assert (holder.since, holder.heartbeat) == (5, 5)
    assert not is_gone(holder)


def test_an_ended_process_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        holder = LeaseHolder(
            "r1", socket.gethostname(), process.pid, start_mark(process.pid) or "", 0, 0
        )
        assert not is_gone(holder)
    assert is_gone(holder)
    assert start_mark(process.pid) is None


def test_another_process_with_the_same_id_does_not_hold_the_lease() -> None:
    holder = this_process("r1", 0)
    system = holder.process_start.rpartition("/")[0]
    assert is_gone(replace(holder, process_start=f"{system}/1"))


@pytest.mark.parametrize(
    "change",
    [
        {"host": "elsewhere"},
        {"process_start": "other-boot/pid:[1]/77"},
        {"process_start": ""},
    ],
)
def test_a_process_that_we_cannot_see_is_never_called_gone(change: dict[str, str]) -> None:
    holder = replace(this_process("r1", 0), pid=2**22 + 1)
    assert is_gone(holder)
    assert not is_gone(replace(holder, **change))


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="needs ps(1)")
def test_systems_without_proc_are_asked_through_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_is_linux", lambda: False)
    holder = this_process("r1", 0)
    system, _, start = holder.process_start.partition("/")
    assert system
    assert start.count(":") == 2
    assert is_gone(replace(holder, pid=2**22 + 1))
