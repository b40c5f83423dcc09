"""Sets up a worker for its tasks: logging, plug-ins, and a limit of memory.

Allocations beyond the limit raise MemoryError in the worker. Without a limit, the kernel would kill
the worker or another process, and Spark would run the same work units again.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dil.model.job import Job
from dil.model.task import RunContext
from dil.observe import logs
from dil.observe.memory import data_bytes, machine_memory_bytes
from dil.observe.redaction import secrets_of
from dil.spi.registry import join_import_path

GIB = 1024**3


@contextmanager
def prepared(run: RunContext, workers: int) -> Iterator[RunContext]:
    """Set up a worker: logging as in the run, the job's own plug-ins, and its memory limit.

    Yields the run's context with the memory limit of this worker. ``workers`` is how many workers
    run at a time on this machine, 0 for one on each core.
    """
    logs.configure(
        level=run.logging.level,
        json_lines=run.logging.is_json,
        stream=sys.stderr,
        secrets=(*secrets_of(run.job), *run.secondary.secrets),
    )
    join_import_path(run.job.running.plugin_path)
    with memory_limited(run.job, workers) as job:
        yield replace(run, job=job)


@contextmanager
def memory_limited(job: Job, workers: int = 0) -> Iterator[Job]:
    """Limit this process to the memory of a job's worker; yield the job with that limit.

    ``workers`` is how many workers run at a time on this machine, 0 for one on each core.
    """
    most = memory_limit(job.extraction.memory_bytes, workers)
    with limited(most):
        yield replace(job, extraction=replace(job.extraction, memory_bytes=most))


def memory_limit(asked: int | None, workers: int = 0) -> int:
    """Return the bytes that this process may take, 0 for no limit.

    If a job sets no limit (``asked`` is None), all workers together get half of the memory of the
    machine or container, and each worker at least 1 GiB. A limit that Spark has set counts, too.
    """
    if asked is not None:
        return asked
    usual = usual_limit(machine_memory_bytes(), workers or os.cpu_count() or 1)
    space, _ = resource.getrlimit(resource.RLIMIT_AS)  # spark.executor.pyspark.memory
    return usual if space == resource.RLIM_INFINITY else min(usual, space)


def usual_limit(memory: int, workers: int) -> int:
    """Return how many bytes one of ``workers`` may take on a machine with ``memory`` bytes.

    >>> usual_limit(64 * GIB, 4) // GIB, usual_limit(8 * GIB, 10) // GIB, usual_limit(GIB, 1) / GIB
    (8, 1, 0.75)
    """
    return min(max(GIB, memory // 2 // workers), memory * 3 // 4)


def workers_at_once(context: Any) -> int:  # a SparkContext
    """Return how many workers run at a time on one machine, 0 if Spark's settings do not say."""
    if context.master == "local" or context.master.startswith("local["):
        return int(context.defaultParallelism)
    conf = context.getConf()
    cores = int(conf.get("spark.executor.cores", "0"))
    return cores // int(conf.get("spark.task.cpus", "1"))


@contextmanager
def limited(most: int) -> Iterator[None]:
    """Make allocations of this process fail beyond ``most`` bytes in all; 0 means no limit.

    Reserved but unused memory does not count (Arrow reserves 1 GiB at first), and mapped files do
    not count. At least half of ``most`` stays available, because allocators keep memory that
    earlier work units have freed. Only Linux can do this; other systems have no limit here.
    """
    data = data_bytes()
    if not most or data is None:
        yield
        return
    reserved, used = data
    limit = reserved + max(most - used, most // 2)
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    others = [each for each in (before, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *others]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
