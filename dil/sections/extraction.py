"""Properties of extraction: the extractor, the place of the rows, the form of delimited text.

See docs/formats.md, rule F17.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from dil.model.csv_settings import CsvSettings
from dil.model.json import JsonValue
from dil.model.schema import JSON
from dil.model.section import (
    Bool,
    Charset,
    Int,
    ModeBits,
    Reported,
    Section,
    Text,
    UriTemplate,
    ValueType,
    Written,
    no_effect,
    prop,
)
from dil.sections.grammars import DocumentPath
from dil.sections.reading import ReadContext, ShapeError, as_object, build, texts
from dil.sections.schema import primitive
from dil.spi.registry import PluginKind, known_name

EXTRACTOR, DATA_FIELD, CSV = "ms.extractor.class", "ms.data.field", "ms.csv"
OPTIONAL = "ms.data.field.optional"
FILE_NAME = "ms.extractor.target.file.name"
_CODE = re.compile(r"u([0-9a-f]{4})", re.IGNORECASE)
_PROJECTION = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
_CHARACTERS = ("fieldSeparator", "quoteCharacter", "escapeCharacter")
# Blank texts of these members leave them out, as in LinkedIn's DIL.
_MAY_BE_BLANK = {"columnHeaderIndex", "linesToSkip", "maxFailures", "keepNullString"}
_CHARACTER_FIX = "Write the character, or its code: u0009 is a tab, u0020 a blank."
_TYPES = "string int long double boolean float"


def _default_types(value: JsonValue, _around: ReadContext) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, word in as_object(value).items():
        if not isinstance(word, str):
            raise ShapeError((f'"{name}" has no type', f'For example {{"{name}":"string"}}.'))
        found[name] = primitive(word, f'"{name}"').word
        if found[name] == JSON:
            raise ShapeError(
                (f'"{name}" has the type {JSON}', "Declare such a column in ms.output.schema.")
            )
    return found


_Types = Annotated[
    dict[str, str],
    Written(
        ValueType.JSON_OBJECT,
        read=_default_types,
        members=(
            ("(a column's name)", "a type word", "Type of the column if no schema declares it."),
        ),
    ),
]


@dataclass(frozen=True, slots=True)
class ExtractionSection(Section):
    """How responses are read."""

    extractor: Annotated[str, Written(ValueType.CLASS, plugin=PluginKind.EXTRACTOR)] = prop(
        EXTRACTOR,
        "The extractor: a short name such as `json`, a Java name of DIL's, or "
        "`package.module:Class`. Databases (`source.class=jdbc`) need none.",
        default="",
        example="json",
        required=True,
    )
    old_extractor: Text = no_effect(
        "extractor.class", "Never read; `ms.extractor.class` is the key.", reported=Reported.ALONE
    )
    data_field: DocumentPath = prop(
        DATA_FIELD,
        "Path of the rows inside the response: a dot path, in which a number picks an element of "
        "an array, or JSONPath, which begins with `$`. The values that it finds are the rows.",
        default="",
        example="result.rows",
    )
    data_field_optional: Bool = prop(
        OPTIONAL,
        "Whether an answer may lack `ms.data.field` because it has no rows, also the first answer "
        "(JSON and XML). Services of Google leave out empty lists.",
        default=False,
        identity=False,
    )
    default_types: _Types = prop(
        "ms.data.default.type",
        "Types by column name; they take the place of inferred types of primitive columns.",
        default_factory=dict,
        example='{"amount": "double", "id": "long"}',
    )
    most_columns: Annotated[Int, Ge(0)] = prop(
        "ms.extract.columns.max",
        "Most columns of rows, with the members of records, if `ms.output.schema` does not name "
        "them; 0 is no limit.",
        default=20_000,
        identity=False,
    )
    explicit_eof: Bool = no_effect(
        "ms.data.explicit.eof",
        "End marker for converters that group rows; here each converter gets a call after the last "
        "row.",
        default=False,
    )
    charset: Charset = prop(
        "ms.source.data.character.set",
        "Character set of the response.",
        default="UTF-8",
    )

    @property
    def is_file_dump(self) -> bool:
        """Return whether the job writes responses to files as they are."""
        return names_file_dump(self.extractor)


def names_file_dump(extractor: str) -> bool:
    """Return whether a text names the extractor of file dumps."""
    return known_name(PluginKind.EXTRACTOR, extractor) == "filedump"


def needs_extractor(connector: str) -> bool:
    """Return whether the connector that a text names gives bytes, which an extractor reads."""
    return known_name(PluginKind.CONNECTOR, connector) != "jdbc"


def _csv(value: JsonValue, around: ReadContext) -> CsvSettings:
    given = texts(as_object(value))
    members = {
        name: item
        for name, item in given.items()
        if name not in _MAY_BE_BLANK or not isinstance(item, str) or item.strip()
    }
    settings = build(CsvSettings, members)
    findings: list[tuple[str, str]] = []
    characters = {
        name: _character(members.get(name, default), name, findings)
        for name, default in zip(_CHARACTERS, (",", '"', "\\"), strict=True)
    }
    separator, quote, escape = characters.values()
    if separator and separator in {quote, escape}:
        other = "quoteCharacter" if separator == quote else "escapeCharacter"
        what = f"fieldSeparator and {other} are the same"
        findings.append((what, "Choose different characters."))
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
        field_separator=separator,
        quote_character=quote,
        escape_character=escape,
    )


def _character(value: object, name: str, findings: list[tuple[str, str]]) -> str:
    """Return the character that a text means; empty text for no character (``u0000`` or blank)."""
    text = str(value).strip()
    code = _CODE.fullmatch(text)
    character = chr(int(code[1], 16)) if code else text[:1]
    if character in {"\r", "\n"} or "\ud800" <= character <= "\udfff":
        findings.append((f"{name} is no character that a line can hold", _CHARACTER_FIX))
        return ""
    if character == "\0":
        character = ""
    if not character and name == "fieldSeparator":
        findings.append((f"{name} is blank", _CHARACTER_FIX))
    return character


def _projection_findings(text: str) -> list[tuple[str, str]]:
    fix = "Write 0-based positions without blanks: 0,2-4."
    if not _PROJECTION.fullmatch(text):
        return [(f'columnProjection is "{text}"', fix)]
    ranges = [part.split("-") for part in text.split(",") if "-" in part]
    wrong = ["-".join(pair) for pair in ranges if int(pair[0]) >= int(pair[1])]
    return [
        (f"columnProjection has the range {each}", f"{fix} The left position is the smaller one.")
        for each in wrong
    ]


_Csv = Annotated[CsvSettings, Written(ValueType.JSON_OBJECT, read=_csv)]


@dataclass(frozen=True, slots=True)
class CsvSection(Section):
    """How delimited text is read."""

    settings: _Csv = prop(
        CSV,
        "How delimited text is read: characters, header, projection, types and failures. A "
        "character may be written as its code: `u0009` is a tab.",
        default_factory=CsvSettings,
        example='{"fieldSeparator": "u0009", "columnHeaderIndex": 0, "maxFailures": 10}',
    )


@dataclass(frozen=True, slots=True)
class DumpSection(Section):
    """Files that copy responses as they are."""

    file_name: UriTemplate = prop(
        FILE_NAME,
        "File name of a file dump below `data.publisher.final.dir`. With S3 and SFTP and any "
        "extractor, a file name also means that one file is read; without a file name the job "
        "lists the files.",
        default="",
        variables=True,
    )
    file_mode: ModeBits = prop(
        "ms.extractor.target.file.permission",
        "Permission of a dumped file, whatever the umask.",
        default=0o755,
        shown="755",
    )
