"""Real ``dil`` processes that a test watches, stops or kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.jobs import DIL, ROOT
from tests.servers.waiting_driver import waiting_driver


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
    *arguments: str | Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``dil`` to its end, in a process that carries out the commands of many tests."""
    words = [*map(str, arguments)]
    answer = waiting_driver.command(words, environ or {})
    return subprocess.CompletedProcess(words, answer.code, answer.stdout, answer.stderr)


def dil_alone(
    *arguments: str | Path, environ: Mapping[str, str] | None = None, timeout: float = 180
) -> subprocess.CompletedProcess[str]:
    """Run ``dil`` to its end in a process of its own, with a JVM of its own if it needs one."""
    with started(*arguments, environ=environ) as process:
        stdout, stderr = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run(job: Path, now: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run ``dil run --json`` to its end, at the time ``now``."""
    return dil("run", job, "--now", now, "--json", *flags)


def printed_by(module: str, *arguments: str) -> list[Any]:
    """Run a module of the tests as a driver; return what it prints, JSON in each line."""
    done = waiting_driver.command(arguments, {}, module=module)
    assert done.code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def report_of(done: subprocess.CompletedProcess[str]) -> dict:
    """Return the JSON report that a run printed."""
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
