"""Replaces a file of this machine that is not the job's data, such as a report or a token."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file; its readers, and a crash, leave the old content or all of the new content.

    If the path is a link, the link's target is replaced.

    Raises:
        OSError: the folder is missing or not writable.
    """
    target = path.resolve()
    handle, name = made_beside(target)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def made_beside(target: Path) -> tuple[int, str]:
    """Make an empty file for the owner only beside the target; return its descriptor and path."""
    return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
