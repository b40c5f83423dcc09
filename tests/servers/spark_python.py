"""The Python of Spark's workers, which starts without Spark's zipped code."""

from __future__ import annotations

import sys
from pathlib import Path


def quick_python(folder: Path, code: Path, python: str = sys.executable) -> Path:
    """Write a program into ``folder`` that starts a Python whose path begins with ``code``.

    Spark puts archives of its own code on the path, which hold no compiled code. Each of its many
    Python processes compiles what it imports from them, and the process of a stream, which has ten
    seconds to start, may then be too late on a busy machine. Here they import the installed Spark.
    """
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{code}" exec "{python}" "$@"\n')
    program.chmod(0o755)
    return program
