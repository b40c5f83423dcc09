"""Properties of the conversion of rows between extractor and writer, and their JSON.

See docs/rows.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.model.json import JsonValue
from dil.model.path import Steps, is_jsonpath
from dil.model.section import (
    Bool,
    Charset,
    DatePatterns,
    Long,
    Section,
    Text,
    Texts,
    ValueType,
    Written,
    Zone,
    prop,
)
from dil.model.settings import DerivedField, ValidationAttributes
from dil.sections.grammars import (
    check_date_pattern,
    check_regex,
    note_dot_path,
    one_place,
    path_problem,
    through_members,
)
from dil.sections.reading import ReadContext, ShapeError, as_array, as_object, build, each, texts
from dil.spi.registry import PluginKind
from dil.text.paths import compile_path
from dil.text.zones import find_zone, zone_fix

CONVERTERS, CSV_ORDER = "converter.classes", "converter.csv_to_json.custom_order"
MAX_FAILURES = "converter.avro.max.conversion.failures"
DERIVED, ENCRYPTED = "ms.derived.fields", "ms.encryption.fields"
BATCH, ATTRIBUTES = "ms.normalizer.batch.size", "ms.validation.attributes"
_CLOCK = re.compile(r"CURRENTDATE|P[0-9]+D", re.IGNORECASE)
_DERIVED_EXAMPLE = """\
[
  {"name": "region", "formula": {"type": "string", "source": "{{region}}"}},
  {"name": "source", "formula": {"type": "string", "value": "shop"}},
  {"name": "extracted_at", "formula": {"type": "epoc", "source": "CURRENTDATE"}},
  {"name": "ordered_ms", "formula": {"type": "epoc", "source": "ordered",
    "format": "yyyy-MM-dd", "timezone": "UTC"}},
  {"name": "year", "formula": {"type": "regexp", "source": "ordered", "format": "^([0-9]{4})"}},
  {"name": "is_open", "formula": {"type": "boolean", "source": "open", "value": "false"}},
  {"name": "lines", "formula": {"type": "int", "source": "address.line"}},
  {"name": "total", "formula": {"type": "number", "source": "amount"}}]"""


def _derived_fields(value: JsonValue, around: ReadContext) -> tuple[DerivedField, ...]:
    found = each(as_array(value), _derived_field)
    for field in found:
        note_dot_path(f'"{field.name}" formula.source', field.formula.source.strip(), around)
    names = [field.name.lower() for field in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ShapeError((f'defines "{twice[0]}" more than once', "Names ignore letter case."))
    return found


def _derived_field(item: JsonValue, where: str) -> DerivedField:
    written = as_object(item, where)
    members: dict[str, object] = dict(written)
    if "formula" in written:
        members["formula"] = texts(as_object(written["formula"], f"{where}.formula"))
    field = build(DerivedField, members, where)
    place = f'{where} "{field.name}"'
    if _CLOCK.fullmatch(field.formula.source) and field.formula.type != "epoc":
        raise ShapeError(
            (
                f"{place} reads {field.formula.source}, which only type epoc can read",
                "Use type epoc.",
            )
        )
    if found := path_problem(f"{where}.formula.source", field.formula.source.strip()):
        raise ShapeError(found)
    formula = field.formula
    if formula.type == "regexp":
        check_regex(formula.format or "(.*)", place)
    if formula.type == "epoc" and formula.timezone:
        try:
            find_zone(formula.timezone)
        except ValueError as error:
            raise ShapeError((f"{place}: {error}", zone_fix(formula.timezone))) from error
    if formula.type == "epoc" and formula.format and formula.format.lower() != "iso":
        check_date_pattern(formula.format, place)
    return field


_Fields = Annotated[tuple[DerivedField, ...], Written(ValueType.JSON_ARRAY, read=_derived_fields)]


@dataclass(frozen=True, slots=True)
class DerivedSection(Section):
    """Columns that are calculated."""

    fields: _Fields = prop(
        DERIVED,
        "Columns calculated for each row and added after its own.",
        default=(),
        example=_DERIVED_EXAMPLE,
        variables=True,
    )


def _encryption_fields(value: JsonValue, around: ReadContext) -> tuple[str, ...]:
    """Return the paths of encrypted fields, each once.

    Raises:
        ShapeError: a path is blank or leads into another one, or there is no master password.
    """
    findings: list[tuple[str, str]] = []
    paths: dict[str, Steps] = {}
    for index, item in enumerate(as_array(value)):
        if not isinstance(item, str) or not (is_jsonpath(item) or all(item.split("."))):
            findings.append((f"[{index}] is no path", 'Write names with dots: "user.token".'))
        elif found := path_problem(f"[{index}]", item, through_members):
            findings.append(found)
        else:
            paths[item] = compile_path(item).steps
    findings.extend(
        (
            f'has "{inner}", which is inside "{outer}"',
            "Name only the inner or only the outer value.",
        )
        for outer, steps in paths.items()
        for inner, deeper in paths.items()
        if inner != outer and deeper[: len(steps)] == steps
    )
    if findings:
        raise ShapeError(*findings)
    if paths:
        around.require_password("asks for encryption")
    return tuple(paths)


_Paths = Annotated[tuple[str, ...], Written(ValueType.JSON_ARRAY, read=_encryption_fields)]


@dataclass(frozen=True, slots=True)
class EncryptionSection(Section):
    """The values that are encrypted before they are written."""

    paths: _Paths = prop(
        ENCRYPTED,
        "Paths of values to encrypt, by the names of the source. The text of a value becomes "
        "`ENC(...)` under the first master password. A path may not lead into an array; null stays "
        "null.",
        default=(),
        example='["address.city"]',
    )


_Converters = Annotated[tuple[str, ...], Written(ValueType.CLASS_LIST, plugin=PluginKind.CONVERTER)]


@dataclass(frozen=True, slots=True)
class ConversionSection(Section):
    """The converters of a job, and how values are converted to the types of their columns."""

    classes: _Converters = prop(
        CONVERTERS,
        "Converters, left to right. DIL's format converters are accepted and not needed.",
        default=(),
    )
    date_formats: DatePatterns = prop(
        "converter.avro.date.format",
        "Patterns tried in order for columns of type date. `iso` takes any date of ISO 8601, with "
        "or without a time after it.",
        default=("yyyy-MM-dd HH:mm:ss",),
    )
    timestamp_formats: DatePatterns = prop(
        "converter.avro.timestamp.format",
        "Patterns tried in order for columns of type timestamp. `iso` takes any text of ISO 8601.",
        default=("yyyy-MM-dd HH:mm:ss",),
    )
    time_formats: DatePatterns = prop(
        "converter.avro.time.format",
        "Patterns tried in order for columns of type time. `iso` takes any time of ISO 8601.",
        default=("HH:mm:ss",),
    )
    zone: Zone = prop(
        "converter.avro.date.timezone",
        "Zone of dates and times in rows that name none.",
        default="UTC",
    )
    binary_charset: Charset = prop(
        "converter.avro.binary.charset",
        "Character set that turns text into a column of bytes.",
        default="UTF8",
    )
    epoch_seconds: Bool = prop(
        "converter.is.epoch.time.in.seconds",
        "Writes Avro dates and times as seconds in place of milliseconds.",
        default=False,
    )
    max_failures: Annotated[Long, Ge(0)] = prop(
        MAX_FAILURES,
        "Most rows of a work unit that may be dropped because they cannot be converted.",
        default=0,
    )
    keeps_columns: Bool = prop(
        "converter.avro.nullify.fields.enabled",
        "Whether columns of the dataset that the rows lack are written as null, in every output "
        "format; if not, files lack these columns.",
        default=False,
    )
    csv_order: Texts = prop(
        CSV_ORDER,
        "Index of the CSV cell for each column of `ms.output.schema`, counted from 0; a "
        "negative number gives null.",
        default=(),
    )


def _attributes(value: JsonValue, _around: ReadContext) -> ValidationAttributes:
    attributes = build(ValidationAttributes, as_object(value))
    if found := path_problem("errorColumn", attributes.error_column or "", one_place):
        raise ShapeError(found)
    return attributes


@dataclass(frozen=True, slots=True)
class NormalizerSection(Section):
    """The settings by which a normaliser groups rows."""

    batch_size: Annotated[Long, Ge(1)] = prop(
        BATCH,
        "Number of rows that a normaliser puts into one row.",
        default=500,
    )
    breaks: Bool = prop(
        "ms.normalizer.batch.break",
        "Whether a normaliser begins a new batch when a column that it keeps changes its value; if "
        "not, the batch has the column's value of its first row.",
        default=False,
    )


@dataclass(frozen=True, slots=True)
class ValidationSection(Section):
    """The rule of in-flow validation."""

    attributes: Annotated[
        ValidationAttributes, Written(ValueType.JSON_OBJECT, read=_attributes)
    ] = prop(
        ATTRIBUTES,
        "The rule by which in-flow validation passes; the validation converter needs it. A member "
        "that is left out has its "
        "default.",
        default=ValidationAttributes(),
        shown='{"threshold":0,"criteria":"fail"}',
        example='{"threshold": 5, "criteria": "fail", "errorColumn": "error"}',
    )


@dataclass(frozen=True, slots=True)
class RangesSection(Section):
    """The length of generated ranges, and the end of the last one."""

    batch_size: Annotated[Long, Ge(1)] = prop(
        "ms.range.generator.batch.size",
        "Rows per generated range.",
        default=50_000,
    )
    last: Text = prop(
        "ms.range.generator.max.value",
        "End of the last generated range.",
        default="zzzzzzzzzz",
    )
