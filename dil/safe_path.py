"""Keeps a command from importing modules from the directory in which it was started."""

from __future__ import annotations

import os
import sys


def leave_working_directory() -> None:
    """Remove the working directory from the import path, where ``python -m`` puts it first.

    The directory stays if it contains this package, as in a checkout that is not installed.
    """
    if sys.flags.safe_path:
        return
    here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - no imports
    if sys.path and os.path.realpath(sys.path[0]) != here:
        del sys.path[0]
