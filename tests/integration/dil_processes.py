"""Real ``dil`` processes that a test watches, stops or kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.jobs import DIL, ROOT


@contextmanager
def started(
    *arguments: str | Path, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start ``dil`` in a process group of its own, as a shell does; kill it at the end."""
    process = subprocess.Popen(
        [*DIL, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(environ or {})},
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def dil(
    *arguments: str | Path, environ: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run ``dil`` to its end."""
    with started(*arguments, environ=environ) as process:
        stdout, stderr = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def report_of(done: subprocess.CompletedProcess[str]) -> dict:
    """Return the JSON report that a run printed."""
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
