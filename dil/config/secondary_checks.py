"""Checks of ``ms.secondary.input`` for a run. Source: behaviour.md B19, check 10; D-66."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dil.config.findings import Findings
from dil.model.properties import Properties
from dil.model.settings import SecondaryInput
from dil.spi.registry import JAVA_NAMES, PluginKind, simple_name
from dil.storage.locations import PathError, any_path
from dil.text.paths import JsonPathError, name_of

KEY = "ms.secondary.input"
_TAKE_FILES = frozenset({"s3", "sftp"})


def check_secondary_input(values: Properties, folder: Path, findings: Findings) -> None:
    """Refuse whole files as payload, and places that cannot be read.

    Planning alone does not need this: its caller brings the rows.
    """
    name = simple_name(values.text("source.class"))
    takes_files = JAVA_NAMES[PluginKind.CONNECTOR].get(name, name) in _TAKE_FILES
    for index, source in enumerate(_entries(values)):
        if source.format == "binary" and not takes_files:
            findings.problem(
                KEY,
                f"[{index}].format is binary, and source.class takes no whole files",
                "Leave it out to send rows; s3 and sftp take files.",
            )
        try:
            any_path(source.path, folder)
        except PathError as error:
            findings.problem(KEY, f"[{index}].path {error}", error.fix)


def has_payload(values: Properties) -> bool:
    """Tell whether there are rows to send."""
    return any(each.category == "payload" and each.format is None for each in _entries(values))


def variables_given(values: Properties) -> frozenset[str]:
    """Return the names of the variables that authentication and activation rows give."""
    return frozenset(
        name
        for source in _entries(values)
        if source.category in {"activation", "authentication"}
        for name in map(_name, source.fields)
    )


def _name(field: str) -> str:
    """Return the name of a field's value; one that does not parse is reported elsewhere."""
    try:
        return name_of(field)
    except JsonPathError:
        return field


def _entries(values: Properties) -> Iterator[SecondaryInput]:
    found = values[KEY]
    for source in found if isinstance(found, tuple) else ():
        if isinstance(source, SecondaryInput):
            yield source
