"""Columns from the files that ms.source.schema.urn and ms.target.schema.urn name.

In LinkedIn's DIL these properties name entries of a metadata store that its open source never
reads. Here they name a file that holds an Avro schema, or columns as in the property that the file
replaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from dil.config.avro_columns import columns_of_avro
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.read_context import JobFileLocation
from dil.errors import Origin, WriteError
from dil.model.json import JsonValue, compact
from dil.sections.conversion import DERIVED
from dil.sections.reading import ShapeError
from dil.sections.schema import SCHEMA, TARGET
from dil.storage import filesystem_for
from dil.storage.locations import PathError, any_path
from dil.text.lenient_json import JsonError, parse

_PLACES = {"ms.source.schema.urn": SCHEMA, "ms.target.schema.urn": TARGET}
_URN = re.compile(r"urn:[^/]", re.IGNORECASE)
_FORMS = (
    "Name a file with an Avro schema (.avsc), or with an array of columns as in {place}; a "
    "relative path starts at the folder of the job file."
)


def with_schema_files(
    entries: Mapping[str, Entry], place: JobFileLocation, findings: Findings
) -> dict[str, Entry]:
    """Return the entries with the columns of the named files in place of written columns.

    Columns that derived fields make are left out of a source's schema.
    """
    found = dict(entries)
    for key, target in _PLACES.items():
        entry = entries.get(key)
        if entry is None:
            continue
        written = entries.get(target)
        if written is not None and written.text.strip() != "[]":
            findings.notice(
                key, f"has no effect: {target} is set", "Keep one of them.", entry.origin
            )
            continue
        columns = _columns(entry, target, place, findings)
        if columns is not None:
            made = _derived(entries) if target == SCHEMA else frozenset()
            kept = [column for column in columns if _name(column) not in made]
            origin = Origin(_path(entry, place))
            found[target] = replace(entry, key=target, text=compact(kept), origin=origin, breaks=())
    return found


def _columns(
    entry: Entry, target: str, place: JobFileLocation, findings: Findings
) -> list[JsonValue] | None:
    """Return the columns of a file; None, with a problem, if the file gives none."""
    forms = _FORMS.format(place=target)

    def problem(what: str, fix: str = forms, origin: Origin | None = None) -> None:
        findings.problem(entry.key, what, fix, origin or entry.origin)

    path = entry.text.strip()
    if _URN.match(path):
        problem("is the name of a schema in a registry, which DIL's open source never reads")
        return None
    try:
        path = _path(entry, place)
        with filesystem_for(path).open_input(path) as stream:
            text = stream.read().decode("utf-8-sig")
        value, _ = parse(text)
        return columns_of_avro(value) if isinstance(value, dict) else _listed(value)
    except PathError as error:
        problem(str(error), error.fix)
    except WriteError as error:  # file systems raise only this error
        problem(f"names a file that cannot be read: {error.message}", error.fix)
    except OSError as error:
        problem(f"names {path}, which cannot be read ({error.strerror or type(error).__name__})")
    except UnicodeDecodeError:
        problem(f"names {path}, which is no text in UTF-8")
    except JsonError as error:
        problem(f"is no JSON: {error.reason}", forms, Origin(path, error.line + 1))
    except ShapeError as error:
        for what, fix in error.findings:
            problem(f"names a schema that cannot be used: {what}", fix, Origin(path))
    return None


def _path(entry: Entry, place: JobFileLocation) -> str:
    return any_path(entry.text.strip(), place.folder)


def _listed(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list) or not value:
        raise ShapeError(("neither a record schema nor an array of columns", "Write one of them."))
    return value


def _derived(entries: Mapping[str, Entry]) -> frozenset[str]:
    """Return the names of derived fields in lower case; none if their JSON is wrong."""
    entry = entries.get(DERIVED)
    try:
        value = parse(entry.text)[0] if entry is not None else []
    except JsonError:
        return frozenset()
    return frozenset(map(_name, value)) if isinstance(value, list) else frozenset()


def _name(column: JsonValue) -> str:
    members = column if isinstance(column, Mapping) else {}
    return str(members.get("columnName", members.get("name", ""))).lower()
