"""Kills a call at each of its lines, one after the other."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

# A child that hangs is ended after this many seconds, and counts as a failure.
_LONGEST_S = 120


def killed_at_each_line(call: Callable[[], object], folder: str, every: int = 1) -> Iterator[int]:
    """Run a call in one child after the other; yield after each kill, until a child completes.

    Only lines of Python files with a path that begins with ``folder`` count. SIGKILL ends the n-th
    child before it runs its n-th such line, so the child cleans up nothing: no ``finally``, no
    rollback, no buffer. If ``every`` is k, children are killed only at each k-th line.

    Yields:
        The number of lines that the killed child ran.

    Raises:
        AssertionError: a child hung, or the call failed in a child.
    """
    number = 1
    while True:
        status = _ended(call, folder, number)
        if os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
            if code:
                raise AssertionError(f"the call failed in a child, after line {number}")
            return
        if os.WTERMSIG(status) != signal.SIGKILL:
            raise AssertionError(f"the call hung, or ended by signal {os.WTERMSIG(status)}")
        yield number - 1
        number += every


def _ended(call: Callable[[], object], folder: str, number: int) -> int:
    with warnings.catch_warnings():
        # A child of a process with threads may hang; the alarm then ends it.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LONGEST_S)
        sys.settrace(_Countdown(folder, number).enter)
        call()
        code = 0
    finally:
        os._exit(code)


class _Countdown:
    def __init__(self, folder: str, number: int) -> None:
        self._folder = folder
        self._left = number

    def enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        """Trace the lines of functions of the folder, and no others."""
        del event, arg
        return self._line if frame.f_code.co_filename.startswith(self._folder) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        del frame, arg
        if event == "line":
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line
