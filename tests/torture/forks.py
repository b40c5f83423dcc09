"""Runs orders in forked children that kill themselves at a chosen call.

The parent loads modules that a child had to load before the next fork, so that a run costs a tenth
of a second.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import IO, Any

import dil

PACKAGE = f"{Path(dil.__file__).parent}/"
_LOADING = "<module>"  # the name of the code that Python runs to load a module
# It is chance how many packets an answer has.
_PER_PACKET = frozenset(
    f"storage/whole_answers.py:{name}" for name in ("_TimedStream.readinto", "WaitLimit.count")
)
Answer = dict[str, Any]


@contextmanager
def killed_at(
    number: int,
    watched: tuple[str, ...],
    *,
    in_threads: bool = False,
    uncounted: frozenset[str] = frozenset(),
    by: signal.Signals = signal.SIGKILL,
) -> Iterator[list[str]]:
    """Kill this process at call or return ``number``, counted from 0; -1 means never.

    If ``by`` is SIGSTOP, the process sleeps there with all its threads, and goes on after SIGCONT.

    If ``in_threads`` is true, calls in threads that begin in the block count, too. Calls that load
    a module never count, because it is chance which child loads a module.

    ``watched`` are the modules and folders of ``dil`` whose calls count. Calls of the functions
    ``uncounted`` do not count, because their number is chance. Yields the calls so far, such as
    ``call run/job_run.py:run_job``.
    """
    events: list[str] = []
    names: dict[CodeType, str] = {}
    loading: Counter[int] = Counter()

    def profile(frame, event, argument) -> None:
        if event not in {"call", "return"}:
            return
        code = frame.f_code
        name = names.get(code)
        if name is None:
            name = _name_of(code, watched)
            name = names[code] = "" if name in uncounted | _PER_PACKET else name
        if not name:
            return
        if name == _LOADING:
            loading[threading.get_ident()] += 1 if event == "call" else -1
        elif not loading[threading.get_ident()]:
            if len(events) == number:
                os.kill(os.getpid(), by)
            events.append(f"{event} {name}")

    if in_threads:
        threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield events
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _name_of(code: CodeType, watched: tuple[str, ...]) -> str:
    """Return the name of a function in events; empty if the function is not watched."""
    if code.co_name == _LOADING:
        return _LOADING
    module = code.co_filename.removeprefix(PACKAGE)
    is_watched = module != code.co_filename and module.startswith(watched)
    return f"{module}:{code.co_qualname}" if is_watched else ""


def serve(run: Callable[[Answer], Answer], unanswered: Answer) -> None:
    """Run each order, one line of JSON on stdin, in a child; answer with one line of JSON.

    An answer is what ``run`` returns, or ``unanswered``, and whether the child was killed. If an
    order has "stops", the child may put itself to sleep; then the answer is {"stopped": true}. The
    order {"wake": true} lets the child that fell asleep last go on; its answer is the answer of
    that child's order.
    """
    sleeping: list[_Child] = []
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("wake"):
            child = sleeping.pop()
            os.kill(child.pid, signal.SIGCONT)
        else:
            child = _fork(run, order)
            if order.get("stops") and child.is_stopped():
                sleeping.append(child)
                print(json.dumps({"stopped": True}), flush=True)
                continue
        answer, loaded = child.answer(unanswered)
        print(json.dumps(answer), flush=True)
        for name in loaded:
            with suppress(ImportError):  # a plug-in beside its job file
                importlib.import_module(name)


@dataclass(frozen=True, slots=True)
class _Child:
    """A forked child, and the file to which it writes its answer."""

    pid: int
    file: IO[str]

    def is_stopped(self) -> bool:
        """Wait until the child ends or stops; return whether it stopped."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        return found is not None and found.si_code == os.CLD_STOPPED

    def answer(self, unanswered: Answer) -> tuple[Answer, list[str]]:
        """Wait for the end of the child; return its answer and the modules that it loaded."""
        _, status = os.waitpid(self.pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        with self.file:
            self.file.seek(0)
            given = self.file.read()
        answer, loaded = json.loads(given) if given else ({"killed": killed, **unanswered}, [])
        return answer, loaded


def _fork(run: Callable[[Answer], Answer], order: Answer) -> _Child:
    file = tempfile.TemporaryFile("w+")  # noqa: SIM115 - the child closes its own, the parent later
    pid = os.fork()
    if pid == 0:
        known = set(sys.modules)
        answer = {"killed": False, **run(order)}
        with file:
            json.dump([answer, [name for name in sys.modules if name not in known]], file)
        os._exit(0)
    return _Child(pid, file)
