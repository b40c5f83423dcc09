"""Paths that properties hold, as absolute ones."""

from __future__ import annotations

from pathlib import Path

from dil.config.findings import Findings
from dil.storage.locations import PathError, any_path, local_path


def path_of(
    text: str, name: str, folder: Path, findings: Findings, *, is_anywhere: bool = False
) -> str:
    """Return the value of a path property as an absolute path, empty text when it is unset.

    Where it may be elsewhere, ``is_anywhere``, such a path begins with scheme and authority.
    """
    if not text:
        return ""
    try:
        return any_path(text, folder) if is_anywhere else str(local_path(text, folder))
    except PathError as error:
        findings.problem(name, str(error), error.fix)
        return ""
