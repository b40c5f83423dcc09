"""Extraction: which extractor reads responses, and where in them the rows are.

Source: behaviour.md B9.1, B9.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dil.config.findings import Findings
from dil.config.schema_columns import primitive
from dil.model.job import ClassRef
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.model.section import (
    Bool,
    Charset,
    ClassName,
    Scope,
    Section,
    Support,
    Text,
    ValueType,
    Written,
    prop,
)
from dil.spi.reading import ShapeError, Surroundings, as_object
from dil.spi.registry import BUILT_IN, PluginKind
from dil.text.property_paths import DocumentPath, one_place, path_problem, through_members

_DATA_FIELD = "ms.data.field"


def _default_types(value: JsonValue, around: Surroundings) -> dict[str, str]:
    del around
    found: dict[str, str] = {}
    for name, word in as_object(value).items():
        if not isinstance(word, str):
            raise ShapeError((f'"{name}" has no type', f'For example {{"{name}":"string"}}.'))
        found[name] = primitive(word, f'"{name}"').word
    return found


_Types = Annotated[
    dict[str, str],
    Written(
        ValueType.JSON_OBJECT,
        read=_default_types,
        members=(("(a column's name)", "a type word", "Type of the column where it is inferred."),),
    ),
]


@dataclass(frozen=True, slots=True)
class ExtractionSection(Section):
    """How responses are read."""

    extractor: ClassName = prop(
        "ms.extractor.class",
        "The extractor: a short name such as `json`, a Java name of DIL's, or "
        "`package.module:Class`.",
        default="",
        example="json",
        required=True,
        scope=Scope.TASK,
    )
    old_extractor: Text = prop(
        "extractor.class",
        "Never read; `ms.extractor.class` is the key.",
        default="",
        scope=Scope.TASK,
        support=Support.NO_EFFECT,
        identity=False,
    )
    data_field: DocumentPath = prop(
        "ms.data.field",
        "Path of the rows inside the response: a dot path, where a number picks an element of "
        "an array, or JSONPath, which begins with `$`; what it finds are the rows.",
        default="",
        example="result.rows",
        scope=Scope.TASK,
    )
    default_types: _Types = prop(
        "ms.data.default.type",
        "Column name to type, in place of what inference finds for primitive columns.",
        default_factory=dict,
        example='{"amount": "double", "id": "long"}',
        scope=Scope.TASK,
    )
    explicit_eof: Bool = prop(
        "ms.data.explicit.eof",
        "End marker for converters that group rows; here converters are always told.",
        default=False,
        scope=Scope.TASK,
        support=Support.NO_EFFECT,
        identity=False,
    )
    charset: Charset = prop(
        "ms.source.data.character.set",
        "Character set of the response.",
        default="UTF-8",
        scope=Scope.TASK,
    )


# Formats in which rows are followed and not searched for, and what a path may be there.
_FOLLOWED = {
    "avro": one_place,
    "orc": through_members,
    "parquet": through_members,
    "xml": through_members,
}


def check_data_field(values: Properties, extractor: ClassRef | None, findings: Findings) -> None:
    """Refuse paths of rows that the extractor cannot follow."""
    known = BUILT_IN[PluginKind.EXTRACTOR].items()
    name = next((name for name, text in known if text == str(extractor)), "")
    if name not in _FOLLOWED or not findings.is_sound(_DATA_FIELD):
        return
    field = values.section(ExtractionSection).data_field
    if found := path_problem("", field, _FOLLOWED[name]):
        what, fix = found
        findings.problem(_DATA_FIELD, f"{what} in {name}", fix)
