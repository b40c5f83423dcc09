"""What a process took of the machine's memory."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path


def peak_rss_bytes() -> int:
    """Return the most resident memory that this process ever had, in bytes.

    Linux's own record of the process is preferred: ``ru_maxrss`` of a process that was started by
    a large one begins with the size of that one.
    """
    try:
        facts = Path("/proc/self/status").read_text("ascii", errors="replace")
    except OSError:
        facts = ""
    if told := re.search(r"^VmHWM:\s*(\d+) kB$", facts, re.MULTILINE):
        return int(told[1]) * 1024
    # macOS counts in bytes, others in KiB.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
