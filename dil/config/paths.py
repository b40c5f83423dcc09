"""Paths and file URIs of a job file. Source: spec README 16."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/)(.*)", re.DOTALL)
_OTHER_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


class PathError(ValueError):
    """A text that names no local path."""


def local_path(text: str, folder: Path) -> Path:
    """Return the absolute path that a text names; a relative one starts at ``folder``.

    ``file:/x``, ``file:///x`` and ``file://localhost/x`` are the path ``/x``.

    Raises:
        PathError: the text is a URI of another kind.
    """
    match = _FILE_URI.fullmatch(text)
    if match:
        return Path(os.path.normpath(unquote(match[1])))
    other = _OTHER_SCHEME.match(text)
    if other:
        raise PathError(f"is on {other[1]}:, which is not supported yet")
    if text.startswith("~"):
        raise PathError("begins with ~, which is not expanded; write ${env:HOME}")
    return Path(os.path.normpath(folder / text))
