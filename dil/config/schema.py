"""Schemas: their properties, and the columns, types and names that rows have.

Source: behaviour.md B9.2, B9.3, B11.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.config.schema_columns import COLUMN_TEXTS, output_schema, target_schema
from dil.model.contract import ContractMode
from dil.model.json import JsonValue
from dil.model.schema import Schema
from dil.model.section import (
    ONE_OF,
    Bool,
    Long,
    Scope,
    Section,
    Support,
    Text,
    ValueType,
    Written,
    prop,
)
from dil.model.settings import SchemaCleansing
from dil.spi.reading import Surroundings, as_object, build
from dil.text.regular_expressions import check_regex

_COLUMNS_EXAMPLE = """\
[
  {"columnName": "id", "isNullable": false, "dataType": {"type": "long"}, "comment": "the key"},
  {"columnName": "ordered", "dataType": {"type": "string"}},
  {"columnName": "open", "dataType": {"type": "boolean"}},
  {"columnName": "amount", "dataType": {"type": "decimal", "precision": 18, "scale": 2}},
  {"columnName": "state", "dataType": {"type": "enum", "name": "state",
    "symbols": ["NEW", "PAID"]}},
  {"columnName": "tags", "dataType": {"type": "array", "name": "tags", "items": "string"}},
  {"columnName": "labels", "dataType": {"type": "map", "name": "labels", "values": "string"}},
  {"columnName": "address", "dataType": {"type": "record", "name": "address", "values": [
    {"columnName": "city", "isNullable": false, "dataType": {"type": "string"}},
    {"columnName": "line", "dataType": {"type": ["int", "null"]}}]}}]"""
_TARGET_EXAMPLE = """\
[
  {"columnName": "region", "dataType": {"type": "string"}},
  {"columnName": "orders", "dataType": {"type": "array", "name": "orders", "items":
    {"name": "order", "dataType": {"type": "record", "name": "order", "values": [
      {"columnName": "id", "dataType": {"type": "long"}},
      {"columnName": "total", "dataType": {"type": "double"}}]}}}}]"""


def _cleansing(value: JsonValue, around: Surroundings) -> SchemaCleansing:
    del around
    cleansing = build(SchemaCleansing, as_object(value))
    check_regex(cleansing.pattern, "pattern")
    return cleansing


_Columns = Annotated[
    Schema,
    Written(ValueType.JSON_ARRAY, read=output_schema, reads_empty=True, members=COLUMN_TEXTS),
]
_Target = Annotated[Schema, Written(ValueType.JSON_ARRAY, read=target_schema, members=COLUMN_TEXTS)]
_Cleansing = Annotated[SchemaCleansing, Written(ValueType.JSON_OBJECT, read=_cleansing)]


@dataclass(frozen=True, slots=True)
class SchemaSection(Section):
    """Which columns rows have, and what happens to rows that have others."""

    columns: _Columns = prop(
        "ms.output.schema",
        "Columns of the rows: name, type, whether null is allowed. Turns inference off.",
        default=(),
        example=_COLUMNS_EXAMPLE,
        scope=Scope.TASK,
    )
    target: _Target = prop(
        "ms.target.schema",
        "Columns of the rows that a normaliser or range generator makes.",
        default=(),
        example=_TARGET_EXAMPLE,
        scope=Scope.TASK,
    )
    columns_urn: Text = prop(
        "ms.source.schema.urn",
        "Name of the output schema in a registry.",
        default="",
        scope=Scope.JOB,
        support=Support.LATER,
    )
    target_urn: Text = prop(
        "ms.target.schema.urn",
        "Name of the target schema in a registry.",
        default="",
        scope=Scope.JOB,
        support=Support.LATER,
    )
    filters: Bool = prop(
        "ms.enable.schema.based.filtering",
        "Whether only the columns of `ms.output.schema` pass. `false` lets JSON rows pass "
        "whole: members that are no columns become further columns, of the types that are "
        "found.",
        default=True,
        scope=Scope.TASK,
    )
    contract: Annotated[ContractMode, ONE_OF] = prop(
        "ms.schema.contract",
        "What a new column or a value of another type does, measured by `ms.output.schema` or, "
        "without it, by the schema of what was published so far. evolve: without "
        "`ms.output.schema` they are accepted and told as drift; with it, new columns are left "
        "out, and the run names them. freeze: the work unit fails. discard_row: the row goes to "
        "quarantine. discard_value: the new column is left out, the unfit value becomes null. "
        "Without a known schema the first run makes it. Under freeze, discard_row and "
        "discard_value, members of JSON rows that `ms.output.schema` does not list count as new "
        "columns, whatever `ms.enable.schema.based.filtering` says; under evolve only with "
        "`ms.enable.schema.based.filtering=false`.",
        default=ContractMode.EVOLVE,
        scope=Scope.TASK,
    )
    keeps_rejects: Bool = prop(
        "ms.quarantine.enabled",
        "Whether rows that are put aside are kept, with the reason, in the dataset's folder "
        "`_quarantine`.",
        default=True,
        scope=Scope.TASK,
    )
    max_rejects: Annotated[Long, Ge(-1)] = prop(
        "ms.quarantine.max.rows",
        "Rows that a work unit may put aside before it fails; 0 lets it fail at the first, -1 "
        "is no limit.",
        default=-1,
        scope=Scope.TASK,
    )
    cleansing: _Cleansing = prop(
        "ms.schema.cleansing",
        "Replaces matches of `pattern` in column names by `replacement`. On by default; "
        "`enabled` false turns it off, `nullable` makes every inferred column nullable.",
        default_factory=SchemaCleansing,
        example='{"pattern": "[^A-Za-z0-9_]", "replacement": "_"}',
        scope=Scope.TASK,
    )
