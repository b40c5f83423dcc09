"""Paths that properties hold, as absolute ones."""

from __future__ import annotations

from pathlib import Path

from dil.config.findings import Findings
from dil.model.properties import Properties
from dil.storage.locations import PathError, any_path, local_path

_ANYWHERE = ("data.publisher.final.dir", "state.store.dir")


def path_of(values: Properties, name: str, folder: Path, findings: Findings) -> str:
    """Return a path property as an absolute path, empty text when it is unset.

    What is published, and state, may be elsewhere: such a path begins with scheme and authority.
    """
    text = values[name]
    if not isinstance(text, str):
        return ""
    try:
        return any_path(text, folder) if name in _ANYWHERE else str(local_path(text, folder))
    except PathError as error:
        findings.problem(name, str(error), error.fix)
        return ""
