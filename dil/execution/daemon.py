"""Spark's Python daemon, which imports our modules once, before it forks its workers.

In local mode, ``spark.python.daemon.module`` names this module. Each worker then starts with
everything a task needs, and imports nothing itself.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path


def without_archives(paths: Sequence[str]) -> list[str]:
    """Return the import path without the archives that belong to an installed pyspark.

    Spark puts these archives first: its zipped Python code, and a jar. They have no compiled code.
    Each worker also reads their tables of contents again (``importlib.invalidate_caches``). This
    costs each run a second or more.
    """
    installed = [Path(path, "pyspark") for path in paths if Path(path, "pyspark").is_dir()]
    archives = {package / below for package in installed for below in ("python/lib", "jars")}
    return [path for path in paths if Path(path).parent not in archives]


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)

    # Nothing here may have started a thread: the workers are forks of this process.
    import pyspark.worker  # noqa: F401 - this and what follows is for the forks
    from pyspark import daemon

    import dil.execution.spark
    import dil.task.work_unit  # noqa: F401

    # A worker collects garbage after each task. It would look through, and so copy, all that it
    # shares with this process: 30 ms and 17 MB.
    gc.freeze()
    daemon.manager()
