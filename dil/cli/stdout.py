"""Standard output is only for the result of a command."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator

from dil.model.json import indented

_STDOUT, _STDERR = 1, 2


def emit(text: str) -> bool:
    """Write a part of the result; return False if the reader has gone.

    A reader that has gone (``dil plan JOB.conf | head``) does not make the command fail.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at its end; that must not fail either.
        number, target = sys.stdout.fileno(), os.open(os.devnull, os.O_WRONLY)
        os.dup2(target, number)
        os.close(target)
        return False
    return True


def emit_lines(lines: Iterable[str]) -> bool:
    """Write lines until the reader has gone; return whether all of them were written."""
    return all(emit(f"{line}\n") for line in lines)


def emit_json(value: object) -> bool:
    """Write one JSON document; plain ASCII, so that no terminal or locale can spoil it."""
    return emit(indented(value) + "\n")


def emit_json_array(items: Iterable[object], *, indent: str = "") -> bool:
    """Write a JSON array item by item, so that a long array is never in memory as a whole."""
    separator = "["
    for item in items:
        if not emit(f"{separator}\n{indent}  {json.dumps(item)}"):
            return False
        separator = ","
    return emit("[]" if separator == "[" else f"\n{indent}]")


@contextlib.contextmanager
def results_only() -> Iterator[None]:
    """Send the output of plug-ins and child processes in the block to standard error.

    Child processes inherit file descriptor 1, so that is redirected, too.
    """
    sys.stdout.flush()
    saved = None
    with contextlib.suppress(OSError):  # the parent process closed it: nothing is to be protected
        saved = os.dup(_STDOUT)
    if saved is not None:
        os.dup2(_STDERR, _STDOUT)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            sys.stdout.flush()  # code that kept the stream object has written into its buffer
            os.dup2(saved, _STDOUT)
            os.close(saved)
