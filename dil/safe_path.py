"""Keeps a command from importing what lies in the directory that it was started in."""

from __future__ import annotations

import os
import sys


def leave_working_directory() -> None:
    """Take the working directory, which ``python -m`` puts first, off the import path.

    It stays where it is the folder of this package: a checkout that is not installed.
    """
    if sys.flags.safe_path:
        return
    here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - no imports
    if sys.path and os.path.realpath(sys.path[0]) != here:
        del sys.path[0]
