"""The clock of the process that runs a job, and its folder for files that may be lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path


def real_clock() -> int:
    """Return the present instant in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def cache_dir(environ: Mapping[str, str]) -> Path | None:
    """Return the cache folder, whose files may be lost; None if the user has no home folder."""
    given = environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(given) if given else Path.home() / ".cache") / "dil"
    except RuntimeError:  # a service account has no home folder
        return None
