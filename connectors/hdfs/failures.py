"""Translates errors of file systems into our errors; only this module does so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from connectors.files.names import pattern_of_wildcards
from dil.errors import AuthenticationError, SourceError, TransientSourceError

_MISSING_FIX = (
    "Check ms.source.uri. If the file may be missing, let the job read the folder above and"
    " select files by ms.source.files.pattern."
)
_GONE_FIX = (
    "Another program removed or renamed it, or it is a broken link. The next attempt lists again."
)
_RIGHTS_FIX = "Grant the user that runs tasks the right to read it, and the folders above it."


@contextmanager
def translated_errors(shown: str, *, listed: bool = False) -> Iterator[None]:
    """Translate errors of a file system; ``listed`` is true if the file was listed just before."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        if listed:
            raise TransientSourceError(
                f"{_named(error, shown)}: it was there when its folder was listed, and is gone",
                _GONE_FIX,
            ) from None
        fix = _missing_fix(shown)
        raise SourceError(f"{shown}: there is no such file or folder", fix) from None
    except PermissionError as error:
        where = _named(error, shown)
        raise AuthenticationError(f"{where}: permission denied", _RIGHTS_FIX) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TransientSourceError(
            f"{shown}: {reason}", "Check that the file system can be reached and works."
        ) from error


def _missing_fix(shown: str) -> str:
    """Return the advice for a missing path, also for a path with wildcards."""
    folder, _, name = shown.rpartition("/")
    if not set("*?") & set(name):
        return _MISSING_FIX
    pattern = pattern_of_wildcards(name)
    return (
        f"ms.source.uri takes no wildcards. Set it to the folder, {folder or '/'}, and select"
        f" files by ms.source.files.pattern=.*/{pattern}, which the whole path has to match."
    )


def _named(error: OSError, shown: str) -> str:
    """Return the path that the error names, perhaps one in the requested folder; else ``shown``."""
    return error.filename if isinstance(error.filename, str) else shown
