"""Options that several verbs of ``dil backfill`` share."""

from __future__ import annotations

import os
import sys

import click

from dil.cli.job_command import JobCall
from dil.observe.progress import progress_for
from dil.run.options import RunOptions
from dil.run.process import cache_dir, real_clock

backfill_id_argument = click.argument("backfill_id", metavar="ID")


def options_of(call: JobCall, now_ms: int) -> RunOptions:
    """Return the options of a reading, or of the tasks of a large merge."""
    return RunOptions(
        now_ms=now_ms,
        clock=real_clock,
        progress=progress_for(sys.stderr),
        environ=os.environ,
        cache=cache_dir(os.environ),
        log_level=call.invocation.task_log_level,
        log_json=call.invocation.json_log,
    )
