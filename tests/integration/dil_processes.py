"""Real ``dil`` processes that a test watches, stops or kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tests.jobs import DIL, ROOT
from tests.servers.waiting_jvm import waiting_jvm


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
    *arguments: str | Path,
    environ: Mapping[str, str] | None = None,
    own_jvm: bool = False,
    timeout: float = 180,
) -> subprocess.CompletedProcess[str]:
    """Run ``dil`` to its end; what it needs of Spark is in a JVM that was started before."""
    lent = nullcontext({}) if own_jvm else waiting_jvm.lent()
    with lent as given, started(*arguments, environ={**given, **(environ or {})}) as process:
        stdout, stderr = process.communicate(timeout=timeout)
        if given and process.returncode < 0:
            waiting_jvm.end()  # a driver that was killed leaves its context there
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run(
    job: Path, now: str, *flags: str, own_jvm: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run ``dil run --json`` to its end, at the time ``now``."""
    return dil("run", job, "--now", now, "--json", *flags, own_jvm=own_jvm)


def printed_by(module: str, *arguments: str) -> list[Any]:
    """Run a module of the tests as a driver; return what it prints, JSON in each line."""
    with waiting_jvm.lent() as given:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, **given}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            cwd=ROOT, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def report_of(done: subprocess.CompletedProcess[str]) -> dict:
    """Return the JSON report that a run printed."""
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
