"""Turns errors of plug-ins into DIL's errors, which name the plug-in's own file and line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dil
from dil.errors import DilError, PluginFailureError, lasting
from dil.model.messages import shortened

# Mistakes of a program: the same call would fail again in the same way.
_DEFECTS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, SyntaxError, TypeError,
)  # fmt: skip
_FIX = "Correct the plug-in there; -v shows the whole traceback."
_OUR_FIX = (
    "DIL's own code raised it: check the arguments that the plug-in passed, or report it with the "
    "traceback that -v shows."
)
_OURS = tuple(f"{Path(dil.__file__).parent.parent / name}/" for name in ("dil", "connectors"))


def plugin_failure(
    what: str, error: Exception, clean: Callable[[str], str] = str
) -> PluginFailureError:
    """Return DIL's error for an exception of a plug-in; a foreign exception's text is shortened.

    Args:
        what: The name of the plug-in.
        error: The exception.
        clean: Returns a text with its secrets masked.
    """
    # The text of a foreign exception may hold a whole payload.
    reason = shortened(clean(f"{type(error).__name__}: {error}"))
    place = _place(error)
    fix = _OUR_FIX if place.startswith(_OURS) else _FIX
    found = PluginFailureError(f"{what}: {reason}{f' ({place})' if place else ''}", fix)
    return lasting(found) if isinstance(error, _DEFECTS) else found


@contextmanager
def translated_plugin_errors(what: str) -> Iterator[None]:
    """Pass DIL's own errors on, and turn every other error into one that names the plug-in.

    Raises:
        PluginFailureError: the block raised an exception that is not DIL's.
    """
    try:
        yield
    except DilError:
        raise
    except Exception as error:  # A plug-in may raise any error.
        raise plugin_failure(what, error) from error


def _place(error: Exception) -> str:
    """Return file and line of the innermost call in the plug-in, not in libraries that it uses."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [frame for frame in frames if not frame.filename.startswith(_OURS)]
    if foreign:
        home = f"{Path(foreign[0].filename).parent}/"
        frames = traceback.StackSummary.from_list(
            [frame for frame in foreign if frame.filename.startswith(home)]
        )
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename}:{last.lineno}, in {last.name}"
