"""``job.template``: a file of properties that a job may override, as in Gobblin.

Source: Gobblin's documentation of job templates, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.identity import PLUGIN_PATH, TEMPLATE
from dil.config.inheritance import normal
from dil.config.interpolation import interpolate
from dil.config.reader import read_file
from dil.storage.locations import PathError, local_path

_INHERITS, _REQUIRES = "gobblin.template.inherit", "gobblin.template.required_attributes"
_RESOURCE = re.compile(r"resource:/*", re.IGNORECASE)


def with_templates(
    written: Mapping[str, Entry],
    path: str,
    settings: Mapping[str, str],
    environ: Mapping[str, str],
    findings: Findings,
) -> dict[str, Entry]:
    """Return the entries of a job and of its template, if it names one; the job's own entries win.

    Args:
        written: The entries of the job's files and of ``-D``.
        path: The job file; its folder is the first place to look for a template.
        settings: The ``-D`` values, which ``${sys:NAME}`` reads.
        environ: The environment, for ``${env:NAME}``.
        findings: Receives missing templates, and missing keys that a template requires.
    """
    if TEMPLATE not in written or not written[TEMPLATE].text.strip():
        return dict(written)
    keys = [key for key in (TEMPLATE, PLUGIN_PATH) if key in written]
    own = interpolate(written, environ=environ, settings=settings, findings=findings, keys=keys)
    folders = [Path(path).parent]
    if PLUGIN_PATH in own:
        folders += [folders[0] / each for each in _items(own[PLUGIN_PATH])]
    reading = _Reading(folders, findings)
    below = reading.entries(own[TEMPLATE], ())
    merged = {**below, **written}
    for name in below.keys() & written.keys():
        if written[name].origin.is_flag and not written[name].overruled:
            merged[name] = replace(written[name], overruled=below[name].text)
    for name, template in reading.required.items():
        if name not in merged or not merged[name].text.strip():
            what = f"is required by the template {template.origin.path}, and not set"
            findings.problem(name, what, "Set it in the job.", written[TEMPLATE].origin)
    return merged


def _items(entry: Entry) -> list[str]:
    return [item.strip() for item in entry.text.split(",") if item.strip()]


@dataclass(slots=True)
class _Reading:
    """Reads templates; ``required`` has the keys that they require, each with its entry."""

    folders: Sequence[Path]
    findings: Findings
    required: dict[str, Entry] = field(default_factory=dict)

    def entries(self, named: Entry, chain: tuple[Path, ...]) -> dict[str, Entry]:
        """Return the entries of the templates that an entry names; later templates win."""
        found: dict[str, Entry] = {}
        for name in _items(named):
            path = self._found(name, named)
            if path is not None and path.resolve() in chain:
                what = f"goes round in a circle: {name}"
                self.findings.problem(named.key, what, "Remove one of them.", named.origin)
            elif path is not None:
                found.update(self._read(path, chain))
        return found

    def _read(self, path: Path, chain: tuple[Path, ...]) -> dict[str, Entry]:
        own = read_file(str(path), self.findings)
        below: dict[str, Entry] = {}
        if _INHERITS in own:
            below = self.entries(own.pop(_INHERITS), (*chain, path.resolve()))
        if _REQUIRES in own:
            asking = own.pop(_REQUIRES)
            self.required.update(dict.fromkeys(_items(asking), asking))
        return {**below, **own}

    def _found(self, name: str, named: Entry) -> Path | None:
        """Return the file of a template in the first folder that has it; None after a problem."""
        text = _RESOURCE.sub("", name)
        try:
            places = [normal(local_path(text, folder)) for folder in self.folders]
        except PathError as error:
            self.findings.problem(named.key, f"{error}", error.fix, named.origin)
            return None
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            looked = ", ".join(map(str, dict.fromkeys(places)))
            what = f'names the template "{name}", and there is no file {looked}'
            fix = f"Put it there, or add its folder to {PLUGIN_PATH}."
            self.findings.problem(named.key, what, fix, named.origin)
        return found
