"""What a process took of the machine's memory, and how much there is."""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

# Sizes stand at the beginning; what is behind them grows with the machine's cores.
_STATUS_BYTES = 4096
_SIZE = re.compile(r"^(Vm\w+|RssAnon):\s*(\d+) kB$", re.MULTILINE)

# What both records of this process said: as long as the first does not grow, nor does the second.
_agreed: dict[int, int] = {}


def peak_rss_bytes() -> int:
    """Return the most resident memory that this process ever had, in bytes.

    Linux's own record of the process is preferred: ``ru_maxrss`` of a process that was started by
    a large one begins with the size of that one.
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
    """Return how much this process has reserved for data, and used of that; None but on Linux."""
    facts = _kept_by_linux()
    if "VmData" not in facts:
        return None
    return facts["VmData"], facts.get("RssAnon", 0) + facts.get("VmSwap", 0)


def machine_memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory of the machine, or of the container that this process runs in.

    Source: kernel.org, cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst
    (memory.limit_in_bytes); a limit holds for all groups below. ``root`` is where to look for them.
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
        folders = [place.joinpath(*parts) for parts in _beginnings(Path(path).parts[1:])]
        limits = [_text(folder / name).strip() for folder in folders]
        sizes += [int(limit) for limit in limits if limit.isdigit()]
    return min(sizes)


def _beginnings(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [parts[:count] for count in range(len(parts) + 1)]


def _kept_by_linux() -> dict[str, int]:
    """Return sizes in bytes that Linux keeps of this process (proc_pid_status(5))."""
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
