"""Waits for a condition, with a time limit."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 60.0) -> T:
    """Return the condition's first true value; fail after ``timeout_s`` seconds."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"not true after {timeout_s} s: {condition}")


def wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until a server accepts connections; fail with its log if it ends."""

    def is_listening() -> bool:
        if process.poll() is not None:
            raise RuntimeError(log.read_text(errors="replace"))
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    wait_until(is_listening)
