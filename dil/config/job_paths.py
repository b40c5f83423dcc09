"""Paths that properties hold, as absolute ones."""

from __future__ import annotations

from pathlib import Path

from dil.config.findings import Findings
from dil.storage.locations import PathError, any_path, local_path


def path_of(
    text: str, name: str, folder: Path, findings: Findings, *, system: str | None = None
) -> str:
    """Return the value of a path property as an absolute path, empty text when it is unset.

    Without a ``system`` it is of this machine. Else it may be elsewhere, and begins with scheme and
    authority then; ``system`` is the file system of a path that names none.
    """
    if not text:
        return ""
    try:
        if system is None:
            return str(local_path(text, folder))
        return any_path(text, folder, system)
    except PathError as error:
        findings.problem(name, str(error), error.fix)
        return ""
