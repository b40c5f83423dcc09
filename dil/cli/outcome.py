"""The text on standard error when a command fails."""

from __future__ import annotations

import traceback

from dil.errors import ConfigError, DilError, RunInterruptedError
from dil.run.failing import AGAIN, INTERNAL, interruption, one_line


def describe(error: BaseException, *, verbose: bool) -> str:
    """Return the text for standard error; if ``verbose`` is true, the traceback is included."""
    if isinstance(error, ConfigError):
        count = len(error.problems)
        noun = "problem" if count == 1 else "problems"
        warnings = "".join(f"warning: {notice}\n" for notice in error.warnings)
        text = f"{error}\n{warnings}{count} {noun}, nothing was done  [{error.code}]"
    elif isinstance(error, DilError):
        text = str(error)
    elif isinstance(error, KeyboardInterrupt):
        text = f"{interruption(error)}  [{RunInterruptedError.code}]\n    {AGAIN}"
    else:
        text = (
            f"internal error: {one_line(error)}  [{INTERNAL}]\n"
            "    Run again with -v for the traceback, and report it."
        )
    if verbose and not isinstance(error, ConfigError):
        trace = "".join(traceback.format_exception(error)).rstrip()
        return f"{trace}\n{text}"
    return text
