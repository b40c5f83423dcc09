"""Conversion: its properties, and what happens to rows between extractor and writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.config.derived_fields import DerivedSection
from dil.config.egress import progress_key
from dil.config.encryption import EncryptionSection
from dil.config.findings import Findings
from dil.config.schema import SchemaSection
from dil.model.contract import ContractMode, QuarantineSpec
from dil.model.job import ClassRef, ConversionSpec, StateSpec
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

_CONTRACT = "ms.schema.contract"
_COMMIT = "ms.state.cursor.commit"
_FAILURES = "converter.avro.max.conversion.failures"
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
    section, schema = values.section(ConversionSection), values.section(SchemaSection)
    return ConversionSpec(
        converters=converters,
        encrypted_fields=values.section(EncryptionSection).paths,
        keeps_columns=section.keeps_columns,
        derived_fields=values.section(DerivedSection).fields,
        date_formats=section.date_formats,
        timestamp_formats=section.timestamp_formats,
        time_formats=section.time_formats,
        zone=section.zone,
        binary_charset=section.binary_charset,
        max_failures=section.max_failures,
        target=schema.target,
        contract=schema.contract,
        quarantine=QuarantineSpec(
            schema.keeps_rejects, None if schema.max_rejects < 0 else schema.max_rejects
        ),
    )


def check_contract(values: Properties, state: StateSpec, findings: Findings) -> None:
    """Check that there is something to measure rows by, and a way to keep rows aside."""
    if not findings.is_sound(_CONTRACT, _COMMIT, "ms.output.schema"):
        return
    schema = values.section(SchemaSection)
    mode = schema.contract
    if mode is not ContractMode.EVOLVE and not state.enabled and not schema.columns:
        findings.problem(
            _CONTRACT,
            f"is {mode}, and no schema is known: without a state store none is recorded",
            "Give the columns with ms.output.schema, or set state.store.enabled=true.",
        )
    puts_aside = mode in {ContractMode.DISCARD_ROW, ContractMode.DISCARD_VALUE}
    key = progress_key(values)
    if key and (puts_aside or values.section(ConversionSection).max_failures > 0):
        findings.problem(
            key,
            "keeps progress, which does not hold the rows that were put aside before",
            f"Leave it out, or set {_CONTRACT}=freeze or evolve with {_FAILURES}=0.",
        )
