"""Spark's Python daemon with our modules imported once, before it forks its workers.

Named by ``spark.python.daemon.module`` in local mode: each worker then starts with everything a
task needs, instead of importing it for itself.
"""

from __future__ import annotations

from pyspark import daemon

import dil.task


def main() -> None:
    """Serve forks until Spark closes our standard input."""
    # Nothing here may have started a thread: the workers are forks of this process.
    assert dil.task is not None  # noqa: S101 - imported for its side effect on fork time
    daemon.manager()


if __name__ == "__main__":
    main()
