"""Checks of ``ms.secondary.input`` for a run. Source: behaviour.md B19, check 10; D-66."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dil.config.findings import Findings
from dil.config.paths import PathError, local_path
from dil.model.properties import Properties
from dil.model.settings import SecondaryInput

KEY = "ms.secondary.input"
_LATER = ("payload", "validation")


def check_secondary_input(values: Properties, folder: Path, findings: Findings) -> None:
    """Refuse categories that have no effect yet, and places that cannot be read.

    Planning alone does not need this: its caller brings the rows.
    """
    for index, source in enumerate(_entries(values)):
        if source.category in _LATER:
            findings.problem(
                KEY,
                f"[{index}] is of category {source.category}, which is not supported yet",
                "Use activation or authentication.",
            )
        try:
            local_path(source.path, folder)
        except PathError as error:
            findings.problem(KEY, f"[{index}].path {error}", "Write a local path.")


def variables_given(values: Properties) -> frozenset[str]:
    """Return the names of the variables that authentication and activation rows give."""
    return frozenset(
        name
        for source in _entries(values)
        if source.category in {"activation", "authentication"}
        for name in source.fields
    )


def _entries(values: Properties) -> Iterator[SecondaryInput]:
    found = values[KEY]
    for source in found if isinstance(found, tuple) else ():
        if isinstance(source, SecondaryInput):
            yield source
