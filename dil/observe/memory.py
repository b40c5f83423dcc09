"""The memory that a process has used, and the memory of the machine."""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

# The sizes are at the beginning of the file; more cores only add lines after them.
_STATUS_BYTES = 4096
_SIZE = re.compile(r"^(Vm\w+|RssAnon):\s*(\d+) kB$", re.MULTILINE)

# The last peak on which both records agreed, by process id. While ru_maxrss does not grow, Linux's
# own record does not grow either.
_agreed: dict[int, int] = {}


def peak_rss_bytes() -> int:
    """Return the peak of this process's resident memory, in bytes.

    Linux's own record of the process is preferred, because a process that a large process started
    inherits the ``ru_maxrss`` of that process.
    """
    # macOS counts in bytes, others in KiB.
    unit = 1 if sys.platform == "darwin" else 1024
    known = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if known == _agreed.get(os.getpid()):
        return known
    found = _kept_by_linux().get("VmHWM")
    if found == known:
        _agreed.clear()
        _agreed[os.getpid()] = known
    return known if found is None else found


def data_bytes() -> tuple[int, int] | None:
    """Return the bytes of data that this process reserved, and uses; None if not on Linux."""
    facts = _kept_by_linux()
    if "VmData" not in facts:
        return None
    return facts["VmData"], facts.get("RssAnon", 0) + facts.get("VmSwap", 0)


def machine_memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory of the machine, or of the container that this process runs in.

    Source: kernel.org, cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst
    (memory.limit_in_bytes); a limit also holds for all groups below. ``root`` is the folder that
    has ``proc`` and ``sys``.
    """
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            place, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            place, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = Path(path).parts[1:]
        folders = [place.joinpath(*parts[:count]) for count in range(len(parts) + 1)]
        limits = [_text(folder / name).strip() for folder in folders]
        sizes += [int(limit) for limit in limits if limit.isdigit()]
    return min(sizes)


def _kept_by_linux() -> dict[str, int]:
    """Return Linux's sizes of this process in bytes (proc_pid_status(5))."""
    try:
        handle = os.open("/proc/self/status", os.O_RDONLY)
    except OSError:
        return {}
    try:
        text = os.read(handle, _STATUS_BYTES).decode("ascii", "replace")
    finally:
        os.close(handle)
    return {name: int(kib) * 1024 for name, kib in _SIZE.findall(text)}


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""
