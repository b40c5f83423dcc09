"""Spark's Python daemon with our modules imported once, before it forks its workers.

Named by ``spark.python.daemon.module`` in local mode: each worker then starts with everything a
task needs, instead of importing it for itself. The environment names what this job's tasks need.
"""

from __future__ import annotations

import contextlib
import importlib
import os

from pyspark import daemon

import dil.task

PRELOAD = "DIL_PRELOAD"


def main() -> None:
    """Serve forks until Spark closes our standard input."""
    # Nothing here may have started a thread: the workers are forks of this process.
    assert dil.task is not None  # noqa: S101 - imported for its side effect on fork time
    for name in filter(None, os.environ.get(PRELOAD, "").split(",")):  # noqa: TID251 - Spark's way
        with contextlib.suppress(Exception):  # a task that needs it tells why it cannot
            importlib.import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
