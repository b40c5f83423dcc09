"""The process that a run is part of: its clock, and where it may keep what can be lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path


def real_clock() -> int:
    """Return the present instant in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def cache_dir(environ: Mapping[str, str]) -> Path | None:
    """Return the folder for files that may survive a run and may be lost; None without a home."""
    given = environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(given) if given else Path.home() / ".cache") / "dil"
    except RuntimeError:  # no home folder: a service account
        return None
