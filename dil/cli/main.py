"""The entry point of the console command: from here on, Ctrl-C ends the command with one line.

Importing the modules of a command takes a while. Without this module, Ctrl-C in that time would
show a Python traceback.
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
