"""Orders run in forked children that kill themselves at a chosen call.

The modules are loaded once, before any fork, so that a run costs a tenth of a second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dil

PACKAGE = f"{Path(dil.__file__).parent}/"
Answer = dict[str, Any]


@contextmanager
def killed_at(
    number: int, watched: tuple[str, ...], *, in_threads: bool = False
) -> Iterator[list[str]]:
    """Kill this process at a call or return, by number from 0, -1 for never.

    With ``in_threads`` those of threads count that begin meanwhile.

    ``watched`` are the modules and folders of ``dil`` whose calls count. Yields those so far, such
    as ``call run/job_run.py:run_job``.
    """
    events: list[str] = []

    def profile(frame, event, argument) -> None:
        file = frame.f_code.co_filename
        if event not in {"call", "return"} or not file.startswith(PACKAGE):
            return
        module = file[len(PACKAGE) :]
        if not module.startswith(watched):
            return
        if len(events) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        events.append(f"{event} {module}:{frame.f_code.co_qualname}")

    if in_threads:
        threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield events
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def serve(run: Callable[[Answer], Answer], unanswered: Answer) -> None:
    """Run each order, one line of JSON on stdin, in a child; answer with one line of JSON.

    An answer is what ``run`` returns, or ``unanswered``, and whether the child was killed.
    """
    for line in sys.stdin:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            answer = {"killed": False, **run(json.loads(line))}
            with os.fdopen(writing, "w") as stream:
                json.dump(answer, stream)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            told = stream.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(told or json.dumps({"killed": killed, **unanswered}), flush=True)
