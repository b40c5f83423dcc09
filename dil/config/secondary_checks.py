"""Checks of ``ms.secondary.input`` for a run. Source: behaviour.md B19, check 10; D-66."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dil.config.findings import Findings
from dil.config.paths import PathError, local_path
from dil.model.properties import Properties
from dil.model.settings import SecondaryInput

KEY = "ms.secondary.input"


def check_secondary_input(values: Properties, folder: Path, findings: Findings) -> None:
    """Refuse whole files as payload, and places that cannot be read.

    Planning alone does not need this: its caller brings the rows.
    """
    for index, source in enumerate(_entries(values)):
        if source.format == "binary":
            findings.problem(
                KEY,
                f"[{index}].format is binary, which is not supported yet",
                "Leave it out to send rows.",
            )
        try:
            local_path(source.path, folder)
        except PathError as error:
            findings.problem(KEY, f"[{index}].path {error}", "Write a local path.")


def has_payload(values: Properties) -> bool:
    """Tell whether there are rows to send."""
    return any(source.category == "payload" for source in _entries(values))


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
