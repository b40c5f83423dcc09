"""Conversion: its properties, and what happens to rows between extractor and writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.model.contract import ContractMode, QuarantineSpec
from dil.model.job import ClassRef, ConversionSpec
from dil.model.properties import Properties
from dil.model.section import (
    Bool,
    Charset,
    ClassNames,
    DatePatterns,
    Long,
    Scope,
    Section,
    Texts,
    Zone,
    prop,
)

_T = Scope.TASK


@dataclass(frozen=True, slots=True)
class ConversionSection(Section):
    """Which converters there are, and how values become those of their columns."""

    classes: ClassNames = prop(
        "converter.classes",
        "Converters, left to right. DIL's format converters are accepted and not needed.",
        default=(),
        scope=_T,
    )
    date_formats: DatePatterns = prop(
        "converter.avro.date.format",
        "Patterns tried in order for columns of type date.",
        default=("yyyy-MM-dd HH:mm:ss",),
        scope=_T,
    )
    timestamp_formats: DatePatterns = prop(
        "converter.avro.timestamp.format",
        "Patterns tried in order for columns of type timestamp.",
        default=("yyyy-MM-dd HH:mm:ss",),
        scope=_T,
    )
    time_formats: DatePatterns = prop(
        "converter.avro.time.format",
        "Patterns tried in order for columns of type time.",
        default=("HH:mm:ss",),
        scope=_T,
    )
    zone: Zone = prop(
        "converter.avro.date.timezone",
        "Zone of dates and times in rows that name none.",
        default="UTC",
        scope=_T,
    )
    binary_charset: Charset = prop(
        "converter.avro.binary.charset",
        "Character set that turns text into a column of bytes.",
        default="UTF8",
        scope=_T,
    )
    epoch_seconds: Bool = prop(
        "converter.is.epoch.time.in.seconds",
        "Writes Avro dates and times as seconds in place of milliseconds.",
        default=False,
        scope=_T,
    )
    max_failures: Annotated[Long, Ge(0)] = prop(
        "converter.avro.max.conversion.failures",
        "Rows per work unit that may be dropped because they cannot be converted.",
        default=0,
        scope=_T,
    )
    keeps_columns: Bool = prop(
        "converter.avro.nullify.fields.enabled",
        "Whether columns that the dataset has and the rows have no more are written as null, "
        "in any output format; otherwise files lack them.",
        default=False,
        scope=_T,
    )
    csv_order: Texts = prop(
        "converter.csv_to_json.custom_order",
        "Index of the CSV cell for each column of `ms.output.schema`, counted from 0; a "
        "negative number gives null.",
        default=(),
        scope=_T,
    )


def conversion_spec(values: Properties, converters: tuple[ClassRef, ...]) -> ConversionSpec:
    """Return what happens to rows between extractor and writer."""
    section = values.section(ConversionSection)
    return ConversionSpec(
        converters=converters,
        encrypted_fields=values.typed("ms.encryption.fields", tuple),
        keeps_columns=section.keeps_columns,
        derived_fields=values.typed("ms.derived.fields", tuple),
        date_formats=section.date_formats,
        timestamp_formats=section.timestamp_formats,
        time_formats=section.time_formats,
        zone=section.zone,
        binary_charset=section.binary_charset,
        max_failures=section.max_failures,
        contract=ContractMode(values.text("ms.schema.contract")),
        quarantine=_quarantine(values),
    )


def _quarantine(values: Properties) -> QuarantineSpec:
    most = values.integer("ms.quarantine.max.rows")
    return QuarantineSpec(values.boolean("ms.quarantine.enabled"), None if most < 0 else most)
