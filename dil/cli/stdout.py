"""Standard output belongs to the result of a command, and to nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator

from dil.model.json import indented

_STDOUT, _STDERR = 1, 2


def emit(text: str) -> bool:
    """Write a piece of the result; return False when the reader has gone.

    A reader that went away (``dil plan JOB.conf | head``) is no failure of the command.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at its end; that must not fail either.
        _point(sys.stdout.fileno(), os.devnull)
        return False
    return True


def emit_json(value: object) -> bool:
    """Write one JSON document; plain ASCII, so that no terminal or locale can spoil it."""
    return emit(indented(value) + "\n")


def emit_json_array(items: Iterable[object], *, indent: str = "") -> bool:
    """Write a JSON array item by item: a long one is never in memory as a whole."""
    separator = "["
    for item in items:
        if not emit(f"{separator}\n{indent}  {json.dumps(item)}"):
            return False
        separator = ","
    return emit("[]" if separator == "[" else f"\n{indent}]")


@contextlib.contextmanager
def results_only() -> Iterator[None]:
    """Send the output of plug-ins and child processes in the block to standard error."""
    with _descriptor_redirected(), contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def _descriptor_redirected() -> Iterator[None]:
    """Let file descriptor 1, which child processes inherit, mean what 2 means."""
    sys.stdout.flush()
    try:
        saved = os.dup(_STDOUT)
    except OSError:  # closed by whoever started us: there is nothing to protect
        yield
        return
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        sys.stdout.flush()  # whoever kept the stream itself has written into its buffer
        os.dup2(saved, _STDOUT)
        os.close(saved)


def _point(number: int, path: str) -> None:
    target = os.open(path, os.O_WRONLY)
    os.dup2(target, number)
    os.close(target)
