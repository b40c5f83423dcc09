"""Identifies this process, and finds out whether another process of this host runs (rule C24).

A process id alone is not enough, because ids are reused. The start mark distinguishes two processes
with the same id, and names the system in which it is valid: Linux's boot id and pid namespace. So a
container or a rebooted host never declares a process dead that it merely cannot see.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from dil.model.dataset import LeaseHolder

_PROC = Path("/proc")
_START_FIELD = 19  # starttime, field 22 of proc(5), counted behind the command's parenthesis
_DEAD_STATES = frozenset({"Z", "X", "x"})


def this_process(run_id: str, now: int) -> LeaseHolder:
    """Return this process as a lease holder whose lease begins now."""
    pid = os.getpid()
    return LeaseHolder(run_id, socket.gethostname(), pid, start_mark(pid) or "", now, now)


def start_mark(pid: int) -> str | None:
    """Return ``<system>/<start>`` of a living process on this host, None if it is gone."""
    start = _linux_start(pid) if _is_linux() else _listed_start(pid)
    return None if start is None else f"{_system()}/{start}"


def is_in_sight(holder: LeaseHolder) -> bool:
    """Return whether this process can find out if a lease holder still runs."""
    if holder.host != socket.gethostname():
        return False
    system = holder.process_start.rpartition("/")[0]
    return bool(system) and system == _system()


def is_gone(holder: LeaseHolder) -> bool:
    """Return whether a lease holder certainly no longer runs; False if that is unknown."""
    return is_in_sight(holder) and start_mark(holder.pid) != holder.process_start


def _is_linux() -> bool:
    return os.uname().sysname == "Linux"


def _system() -> str:
    if not _is_linux():
        return os.uname().sysname
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    namespace = os.readlink(_PROC / "self/ns/pid")  # noqa: PTH115 - the link points to no file
    return f"{boot}/{namespace}"


def _linux_start(pid: int) -> str | None:
    try:
        status = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = status.rpartition(")")[2].split()  # the command may hold blanks and parentheses
    return None if fields[0] in _DEAD_STATES else fields[_START_FIELD]


def _listed_start(pid: int) -> str | None:
    """Return a process's start from ps(1), on POSIX systems without /proc."""
    listing = subprocess.run(  # noqa: S603 - fixed program, a number as argument
        ["/bin/ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C"},
    )
    state, _, start = listing.stdout.strip().partition(" ")
    return start.strip() if start and not state.startswith("Z") else None
