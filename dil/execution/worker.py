"""The first steps of every task, on its executor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dil.execution.memory import memory_limited
from dil.model.task import RunContext
from dil.observe import logs
from dil.observe.redaction import secrets_of
from dil.spi.registry import join_import_path


@contextmanager
def prepared(run: RunContext, workers: int) -> Iterator[RunContext]:
    """Set up a worker: logging as in the run, the job's own plug-ins, and its memory limit.

    Yields the run's context with the memory limit of this worker. ``workers`` is how many workers
    run at a time on this machine, 0 for one on each core.
    """
    logs.configure(
        level=run.log_level,
        json_lines=run.log_json,
        stream=sys.stderr,
        secrets=(*secrets_of(run.job), *run.secondary.secrets),
    )
    join_import_path(run.job.running.plugin_path)
    with memory_limited(run.job, workers) as job:
        yield replace(run, job=job)
