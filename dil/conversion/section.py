"""The properties that the built-in converters bring along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.model.json import JsonValue
from dil.model.section import Bool, Long, Scope, Section, Text, ValueType, Written, prop
from dil.model.validation_attributes import ValidationAttributes
from dil.spi.reading import ShapeError, Surroundings, as_object, build
from dil.text.property_paths import one_place, path_problem


def _attributes(value: JsonValue, around: Surroundings) -> ValidationAttributes:
    del around
    attributes = build(ValidationAttributes, as_object(value))
    if found := path_problem("errorColumn", attributes.error_column or "", one_place):
        raise ShapeError(found)
    return attributes


@dataclass(frozen=True, slots=True)
class NormalizerSection(Section):
    """How a normaliser groups rows."""

    batch_size: Annotated[Long, Ge(1)] = prop(
        "ms.normalizer.batch.size",
        "Rows that a normaliser puts into one.",
        default=500,
        scope=Scope.TASK,
    )
    breaks: Bool = prop(
        "ms.normalizer.batch.break",
        "Whether a normaliser begins a new batch where a column that it keeps changes its "
        "value; otherwise the first row of a batch speaks for all.",
        default=False,
        scope=Scope.TASK,
    )


@dataclass(frozen=True, slots=True)
class ValidationSection(Section):
    """The rule of in-flow validation."""

    attributes: Annotated[
        ValidationAttributes, Written(ValueType.JSON_OBJECT, read=_attributes)
    ] = prop(
        "ms.validation.attributes",
        "When in-flow validation passes; required with it. A member that is left out keeps its "
        "default.",
        default=ValidationAttributes(),
        shown='{"threshold":0,"criteria":"fail"}',
        example='{"threshold": 5, "criteria": "fail", "errorColumn": "error"}',
        scope=Scope.TASK,
    )


@dataclass(frozen=True, slots=True)
class RangesSection(Section):
    """How long generated ranges are, and where the last one ends."""

    batch_size: Annotated[Long, Ge(1)] = prop(
        "ms.range.generator.batch.size",
        "Rows per generated range.",
        default=50_000,
        scope=Scope.TASK,
    )
    last: Text = prop(
        "ms.range.generator.max.value",
        "End of the last generated range.",
        default="zzzzzzzzzz",
        scope=Scope.TASK,
    )
