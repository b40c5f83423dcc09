"""What every task does first, on its executor."""

from __future__ import annotations

import sys

from dil.model.task import RunContext
from dil.observe import logs
from dil.observe.redaction import secrets_of
from dil.spi.registry import join_import_path


def begin(run: RunContext) -> None:
    """Let a worker log as the run does, and find the job's own plug-ins."""
    logs.configure(
        level=run.log_level,
        json_lines=run.log_json,
        stream=sys.stderr,
        secrets=(*secrets_of(run.job), *run.secondary.secrets),
    )
    join_import_path(run.job.running.plugin_path)
