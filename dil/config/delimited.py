"""Delimited text: its property, its JSON, and the checks against the columns of the schema.

Source: behaviour.md B9.7, B11.2; properties.yaml, ms.csv.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from dil.config.conversion import ConversionSection
from dil.config.derived_fields import DerivedSection
from dil.config.findings import Findings
from dil.config.schema import SchemaSection
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.model.schema import ArrayType, MapType, RecordType
from dil.model.section import Scope, Section, ValueType, Written, prop
from dil.spi.reading import ShapeError, Surroundings, as_object, build, texts

_KEY = "ms.csv"
_ORDER = "converter.csv_to_json.custom_order"
_SCHEMA = "ms.output.schema"
_CODE = re.compile(r"u([0-9a-f]{4})", re.IGNORECASE)
_PROJECTION = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
_CHARACTERS = ("fieldSeparator", "quoteCharacter", "escapeCharacter")
_EXTRACTOR = "CsvExtractor"
_TYPES = "string int long double boolean float"


def _csv(value: JsonValue, around: Surroundings) -> CsvSettings:
    members = texts(as_object(value))
    settings = build(CsvSettings, members)
    findings: list[tuple[str, str]] = []
    characters = {
        name: _character(members.get(name, default), name, findings)
        for name, default in zip(_CHARACTERS, (",", '"', "\\"), strict=True)
    }
    findings += _same_characters(characters)
    if "columnProjection" in members:
        findings += _projection_findings(settings.column_projection)
    if "linesToSkip" in members and settings.lines_to_skip < settings.column_header_index + 1:
        least = settings.column_header_index + 1
        findings.append(
            (
                f"linesToSkip is {settings.lines_to_skip}, and the header is line {least}",
                f"Leave linesToSkip out, or write {least} or more.",
            )
        )
    if "defaultFieldType" in members and not settings.default_field_type:
        findings.append(("defaultFieldType is blank", f"One of: {_TYPES}."))
    if findings:
        raise ShapeError(*findings)
    if settings.record_separator not in {"", "\n", "\r", "\r\n", r"\n", r"\r", r"\r\n"}:
        around.notice("has a recordSeparator, which has no effect", "CR, LF and CRLF end a record.")
    return replace(
        settings,
        field_separator=characters["fieldSeparator"],
        quote_character=characters["quoteCharacter"],
        escape_character=characters["escapeCharacter"],
    )


def _character(value: object, name: str, findings: list[tuple[str, str]]) -> str:
    """Return the character that a text means, empty text for none (``u0000`` or blank)."""
    text = str(value).strip()
    code = _CODE.fullmatch(text)
    character = chr(int(code[1], 16)) if code else text[:1]
    if character in {"\r", "\n"} or "\ud800" <= character <= "\udfff":
        findings.append((f"{name} is no character that can stand in a line", _CHARACTER_FIX))
        return ""
    if character == "\0":
        character = ""
    if not character and name == "fieldSeparator":
        findings.append((f"{name} is blank", _CHARACTER_FIX))
    return character


_CHARACTER_FIX = "Write the character, or its code: u0009 is a tab, u0020 a blank."


def _same_characters(characters: Mapping[str, str]) -> list[tuple[str, str]]:
    separator, quote, escape = (characters[name] for name in _CHARACTERS)
    if separator and separator in {quote, escape}:
        other = "quoteCharacter" if separator == quote else "escapeCharacter"
        return [(f"fieldSeparator and {other} are the same", "Choose different characters.")]
    return []


def _projection_findings(text: str) -> list[tuple[str, str]]:
    fix = "Write 0-based positions without blanks: 0,2-4."
    if not _PROJECTION.fullmatch(text):
        return [(f'columnProjection is "{text}"', fix)]
    ranges = [part.split("-") for part in text.split(",") if "-" in part]
    wrong = ["-".join(pair) for pair in ranges if int(pair[0]) >= int(pair[1])]
    return [
        (f"columnProjection has the range {each}", f"{fix} The left one is less.") for each in wrong
    ]


_Csv = Annotated[CsvSettings, Written(ValueType.JSON_OBJECT, read=_csv)]


@dataclass(frozen=True, slots=True)
class CsvSection(Section):
    """How delimited text is read."""

    settings: _Csv = prop(
        "ms.csv",
        "How delimited text is read: characters, header, projection, types and failures. A "
        "character may be written as its code: `u0009` is a tab.",
        default_factory=CsvSettings,
        example='{"fieldSeparator": "u0009", "columnHeaderIndex": 0, "maxFailures": 10}',
        scope=Scope.TASK,
    )


def csv_spec(values: Properties) -> CsvSpec:
    """Return how delimited text becomes rows."""
    derived = values.section(DerivedSection).fields
    # A field that reads the very column whose name it has needs that column's cell.
    read = {each.formula.source.strip().lower() for each in derived}
    return CsvSpec(
        settings=values.section(CsvSection).settings,
        made_up=frozenset(each.name.lower() for each in derived) - read,
        order=_order(values),
    )


def check_csv(values: Properties, extractor: ClassRef | None, findings: Findings) -> None:
    """Check ``ms.csv`` and the order of cells against the columns of ``ms.output.schema``."""
    if extractor is not None and extractor.qualname == _EXTRACTOR:
        _check_columns(values, findings)
    if not all(findings.is_sound(key) for key in (_KEY, _ORDER, _SCHEMA)):
        return
    _check_order(values, findings)
    schema = values.section(SchemaSection).columns
    projected = values.section(CsvSection).settings.projected
    if not schema:
        if projected:
            findings.notice(
                _KEY,
                "has a columnProjection, which needs ms.output.schema and has no effect",
                "Describe the projected columns in ms.output.schema.",
            )
        if _order(values):
            findings.notice(
                _ORDER, "needs ms.output.schema and has no effect", "Describe the columns there."
            )
        return
    spec = csv_spec(values)
    count = sum(column.name.lower() not in spec.made_up for column in schema)
    if projected and len(projected) != count:
        findings.problem(
            _KEY,
            f"projects {len(projected)} cells, and ms.output.schema has columns for {count}",
            "Columns of derived fields do not count; all others need one cell each.",
        )
    if spec.order and len(spec.order) != len(schema):
        findings.problem(
            _ORDER,
            f"has {len(spec.order)} numbers, and ms.output.schema has {len(schema)} columns",
            "Write one number for each column, -1 for null.",
        )


def _check_columns(values: Properties, findings: Findings) -> None:
    """Refuse columns that no cell can hold."""
    for column in values.section(SchemaSection).columns:
        if isinstance(column.type, RecordType | ArrayType | MapType):
            findings.problem(
                _SCHEMA,
                f'column "{column.name}" is nested, and a cell of CSV is one value',
                "Give it a plain type, such as string.",
            )


def _order(values: Properties) -> tuple[int, ...]:
    written = values.section(ConversionSection).csv_order
    return tuple(int(text) for text in written if re.fullmatch(r"-?[0-9]{1,5}", text))


def _check_order(values: Properties, findings: Findings) -> None:
    written = values.section(ConversionSection).csv_order
    order = _order(values)
    if len(order) != len(written):
        findings.problem(
            _ORDER, "holds something that is no whole number", "Write numbers: 1,0,-1."
        )
    elif max(order, default=-1) >= len(order):
        findings.problem(
            _ORDER,
            f"names the cell {max(order)}, and there are as many cells as columns, from 0 on",
            "Count from 0; -1 gives null.",
        )
