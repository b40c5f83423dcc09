"""The archive of Spark's classes, by which each JVM of the tests starts sooner.

``python -m tests.servers.class_archive`` makes it if there is none. Without this, each of the many
JVMs that start before the first one has ended would make an archive of its own when it ends, and
each takes seconds.
"""

from __future__ import annotations

import os

from dil.execution.java import ClassArchive, find_java
from dil.execution.jvm import spark_home
from dil.execution.session import SparkSettings, spark_context
from dil.run.process import cache_dir


def quick_start() -> str:
    """Return JVM options for a session of seconds: no optimising, no threads for garbage.

    The archive of classes halves what a session of tests costs. It is used if there is one.
    """
    options = _options()
    archive = options if any("SharedArchiveFile" in option for option in options) else ()
    return " ".join(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *archive])


def make_archive() -> None:
    """Make the archive if there is none, and if this Java can make one."""
    if not any("ArchiveClassesAtExit" in option for option in _options()):
        return
    settings = SparkSettings(
        "archive", 1, dict(os.environ), cache_dir(os.environ), is_embedded=True
    )
    with spark_context(settings) as context:  # its JVM ends here, and writes the archive
        context.parallelize([0]).map(str).collect()


def _options() -> tuple[str, ...]:
    cache = cache_dir(os.environ)
    if cache is None:
        return ()
    return ClassArchive(cache, find_java(os.environ), spark_home() / "jars").jvm_options()


if __name__ == "__main__":
    make_archive()
