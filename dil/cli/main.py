"""Where the console command begins: from here on an interruption ends it with one line.

What a command needs takes a while to import; Ctrl-C in that time was a traceback of Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_INTERRUPTED = 130  # 128 + SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process (rule U24)."""
    try:
        from dil.cli.program import main as run

        return run(argv)
    except KeyboardInterrupt:
        sys.stderr.write("stopped by SIGINT before anything was done  [DIL-INTERRUPTED]\n")
        return _INTERRUPTED
