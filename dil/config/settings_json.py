"""JSON properties as frozen models: one reader per property."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dil.config import conversion_json, csv_json, preprocessing, s3_json
from dil.config.derived_json import derived_fields
from dil.config.schema_columns import primitive
from dil.model.json import JsonValue
from dil.model.settings import (
    SecondaryInput,
)
from dil.model.suggestions import REGEX_FIX
from dil.spi.reading import (
    ShapeError,
    Surroundings,
    as_array,
    as_object,
    build,
    each,
)
from dil.storage.locations import PathError, any_path
from dil.text.regular_expressions import regex_error
from dil.text.variables import placeholders


def read(name: str, value: JsonValue, around: Surroundings) -> object:
    """Return the model of a JSON property that is not blank; without a reader the JSON itself.

    Raises:
        ShapeError: the value does not have the property's form.
    """
    reader = _READERS.get(name)
    return value if reader is None else reader(value, around)


def empty(name: str) -> object:
    """Return what a blank JSON property holds: its model's defaults, an empty value, or None."""
    make = _EMPTY.get(name)
    return None if make is None else make()


def _default_types(value: JsonValue, around: Surroundings) -> dict[str, str]:
    del around
    found: dict[str, str] = {}
    for name, word in as_object(value).items():
        if not isinstance(word, str):
            raise ShapeError((f'"{name}" has no type', f'For example {{"{name}":"string"}}.'))
        found[name] = primitive(word, f'"{name}"').word
    return found


def _secondary_inputs(value: JsonValue, around: Surroundings) -> tuple[SecondaryInput, ...]:
    sources = each(
        as_array(value), lambda item, where: _secondary_input(item, where, around.folder)
    )
    if sum(source.category == "authentication" for source in sources) > 1:
        around.notice(
            "has more than one authentication entry; all of them together must give one row",
            "Keep one entry, or let filters leave one row.",
        )
    for index, source in enumerate(sources):
        if not source.fields and source.category in {"activation", "authentication"}:
            gives = "no variable" if source.category == "authentication" else "one unit, {}"
            around.notice(f"[{index}] names no fields, so it gives {gives}", "Name its fields.")
    return sources


def _secondary_input(item: JsonValue, where: str, folder: Path) -> SecondaryInput:
    source = build(SecondaryInput, as_object(item, where), where)
    findings = [
        (f"{where}.filters.{column}: {error}", REGEX_FIX)
        for column, pattern in source.filters.items()
        if (error := regex_error(pattern))
    ]
    used = placeholders(source.path)
    if not source.path.strip():
        findings.append((f"{where}.path is blank", "Name a folder or a file."))
    if used and source.category != "payload":
        names = ", ".join(f"{{{{{name}}}}}" for name in used)
        findings.append(
            (
                f"{where}.path uses {names}, and {source.category} input is read once for all "
                "work units",
                "Variables are for category payload; ${name} works everywhere.",
            )
        )
    if source.format is not None and source.category != "payload":
        findings.append(
            (f"{where}.format is for category payload only", "Leave it out to read rows.")
        )
    if findings:
        raise ShapeError(*findings)
    return replace(source, path=_located(source.path, folder))


def _located(path: str, folder: Path) -> str:
    """Return the absolute path; one of another kind, or one that a variable begins, as it is."""
    try:
        return path if path.startswith("{{") else any_path(path, folder)
    except PathError:
        return path  # A run refuses it; planning alone does not read it.


_READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {
    **conversion_json.READERS,
    **csv_json.READERS,
    **preprocessing.READERS,
    **s3_json.READERS,
    "ms.derived.fields": derived_fields,
    "ms.data.default.type": _default_types,
    "ms.secondary.input": _secondary_inputs,
}
_EMPTY: Mapping[str, Callable[[], object]] = {
    **conversion_json.EMPTY,
    **csv_json.EMPTY,
    **preprocessing.EMPTY,
    **s3_json.EMPTY,
    "ms.derived.fields": tuple,
    "ms.secondary.input": tuple,
    "ms.data.default.type": dict,
}
