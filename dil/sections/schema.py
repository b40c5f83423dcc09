"""The properties of schemas, and the reading of DIL's columnar form, a JSON array of columns.

See docs/formats.md, docs/rows.md, rule F17.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.model.json import JsonValue
from dil.model.messages import suggestion
from dil.model.schema import (
    COLUMN_NAME,
    JSON,
    TYPE_SYNONYMS,
    ArrayType,
    Column,
    ContractMode,
    DataType,
    EnumType,
    MapType,
    Primitive,
    RecordType,
    Schema,
)
from dil.model.section import (
    ONE_OF,
    Bool,
    Long,
    MemberText,
    PathText,
    Section,
    ValueType,
    Written,
    prop,
)
from dil.model.settings import SchemaCleansing
from dil.sections.grammars import check_regex
from dil.sections.reading import (
    ReadContext,
    ShapeError,
    as_array,
    as_object,
    build,
    unknown_members,
)

FILTERS = "ms.enable.schema.based.filtering"
SCHEMA, TARGET, CONTRACT = "ms.output.schema", "ms.target.schema", "ms.schema.contract"
PRIMITIVES = (
    "string", "boolean", "int", "integer", "long", "int64", "float", "double", "number",
    "decimal", "bytes", "date", "time", "timestamp", JSON,
)  # fmt: skip
_NESTED = ("enum", "array", "map", "record", "object", "union")
COLUMN_MEMBERS = ("columnName", "name", "isNullable", "dataType", "comment")
_TYPE_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "array": ("items",),
    "map": ("values",),
    "record": ("values", "fields"),
    "object": ("values", "fields"),
    "enum": ("symbols",),
    "decimal": ("precision", "scale"),
}
_MAX_DECIMAL_DIGITS = 76
# A record whose members are the moved columns, under any names.
_MOVED = RecordType(())
# The members of a column: path, value and meaning.
_COLUMN_TEXTS: tuple[MemberText, ...] = (
    (
        "columnName",
        "text, required",
        "Name of the column, also written `name`. Letters, digits and underscore.",
    ),
    ("isNullable", "true or false", "Whether null is allowed; if left out, it is allowed."),
    ("dataType", "object, or a type word", "Type of the column."),
    (
        "dataType.type",
        "type word, required",
        "`string`, `boolean`, `int`, `integer`, `long`, `int64`, `float`, `double`, `number`, "
        "`decimal`, `bytes`, `date`, `time`, `timestamp`, `json`, `enum`, `array`, `map`, "
        '`record`, `object`; `["int","null"]` is a nullable int. A union of other flat types is '
        "the widest number type if all are numbers, else text. `json` takes any value of a JSON "
        "source as a column of JSON texts.",
    ),
    ("dataType.name", "text", "Name of an enum, array, map or record in Avro."),
    ("dataType.items", "type word or column", "For an array: the type of its items."),
    (
        "dataType.values",
        "type word or column; columns",
        "For a map: the type of its values. For a record or object: its columns.",
    ),
    ("dataType.fields", "columns", "The same as `values` of a record."),
    ("dataType.symbols", "array of texts", "For an enum: its symbols."),
    ("dataType.precision", "whole number", "Number of digits of a decimal; 38 if left out."),
    ("dataType.scale", "whole number", "Number of digits after the point; 0 if left out."),
    ("comment", "text", "For people."),
)


def _output_schema(value: JsonValue, _around: ReadContext) -> Schema:
    """Return the columns in order.

    Raises:
        ShapeError: the array is empty, a column has no name or type, a type is unknown, or a name
            is used twice or unfit for Avro and Parquet.
    """
    items = as_array(value)
    if not items:
        raise ShapeError(("is an empty array", "Leave the value out to infer the schema."))
    findings: list[tuple[str, str]] = []
    columns = _columns(items, "", findings)
    if findings:
        raise ShapeError(*findings)
    return columns


def _target_schema(value: JsonValue, around: ReadContext) -> Schema:
    """Return the columns; a container without a definition holds the moved columns.

    Raises:
        ShapeError: as for ms.output.schema.
    """
    items = as_array(value)
    open_types = {index: found for index, item in enumerate(items) if (found := _open_type(item))}
    closed = [
        {**as_object(item), "dataType": "string"} if index in open_types else item
        for index, item in enumerate(items)
    ]
    columns = _output_schema(closed, around)
    return tuple(
        type(column)(column.name, open_types[index], column.nullable, column.comment)
        if index in open_types
        else column
        for index, column in enumerate(columns)
    )


def _open_type(column: JsonValue) -> DataType | None:
    """Return the type of a column whose array, map or record has no definition; else None."""
    data_type = column.get("dataType") if isinstance(column, Mapping) else None
    word, members = _word(data_type)
    if word in {"record", "object"} and not {"values", "fields"} & members.keys():
        return _MOVED
    if word == "map" and "values" not in members:
        return MapType(Primitive("string"), name=_name(members))
    if word == "array":
        items = members.get("items")
        if isinstance(items, Mapping) and "dataType" in items:
            items = items["dataType"]
        inner, inside = _word(items)
        is_open = items is None or (
            inner in {"record", "object"} and not {"values", "fields"} & inside.keys()
        )
        return ArrayType(_MOVED, name=_name(members)) if is_open else None
    return None


def _word(data_type: JsonValue) -> tuple[str, Mapping[str, JsonValue]]:
    """Return the type word in lower case, and the other members of the type."""
    if isinstance(data_type, str):
        return data_type.lower(), {}
    if not isinstance(data_type, Mapping):
        return "", {}
    word = data_type.get("type")
    return (word.lower(), data_type) if isinstance(word, str) else ("", {})


def _name(members: Mapping[str, JsonValue]) -> str:
    name = members.get("name")
    return name if isinstance(name, str) else ""


def primitive(word: str, where: str) -> Primitive:
    """Return the primitive type of a type word in any letter case.

    Raises:
        ShapeError: there is no such type.
    """
    lower = word.lower()
    if lower in _NESTED:
        raise ShapeError(
            (
                f'{where} has the type "{word}" without its definition',
                "Only ms.output.schema can define such a type, with all its members.",
            )
        )
    if lower not in PRIMITIVES:
        known = (*PRIMITIVES, *_NESTED)
        raise ShapeError(
            (
                f'{where} has the unknown type "{word}"',
                f"{suggestion(word, known)} Known types: {', '.join(known)}.".strip(),
            )
        )
    return Primitive(TYPE_SYNONYMS.get(lower, lower))


def _columns(
    items: Sequence[JsonValue], path: str, findings: list[tuple[str, str]]
) -> tuple[Column, ...]:
    """Return the valid columns; add the problems of each column to ``findings``."""
    columns: list[Column] = []
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        try:
            column = _column(item, path, index, findings)
        except ShapeError as error:
            findings.extend(error.findings)
            continue
        first = seen.setdefault(column.name.lower(), index)
        if first == index:
            columns.append(column)
            continue
        findings.append(
            (
                f"has two columns {path}{column.name}",
                "Column names must differ in more than letter case.",
            )
        )
    return tuple(columns)


def _column(item: JsonValue, path: str, index: int, findings: list[tuple[str, str]]) -> Column:
    members = as_object(item, f"{path}[{index}]")
    name = members.get("columnName", members.get("name"))
    if not isinstance(name, str) or not name:
        raise ShapeError((f"{path}[{index}] has no columnName", 'Add "columnName":"...".'))
    where = f"{path}{name}"
    findings.extend(unknown_members(members, COLUMN_MEMBERS, where))
    if not COLUMN_NAME.fullmatch(name):
        raise ShapeError(
            (
                f'has the column name "{where}", which files cannot hold',
                "Use letters, digits and underscores, and no digit at the beginning."
                " ms.schema.cleansing renames such columns of the source.",
            )
        )
    data_type, has_null = _data_type(members.get("dataType"), where, findings)
    is_nullable = _nullable(members.get("isNullable"), where) or has_null
    comment = members.get("comment")
    return Column(name, data_type, is_nullable, comment if isinstance(comment, str) else "")


def _nullable(value: JsonValue, where: str) -> bool:
    if value is None:
        return True
    word = str(value).lower()
    if word not in {"true", "false"}:
        raise ShapeError(
            (
                f"{where} has an isNullable that is neither true nor false",
                'Write "isNullable":true or false.',
            )
        )
    return word == "true"


def _data_type(
    value: JsonValue, where: str, findings: list[tuple[str, str]]
) -> tuple[DataType, bool]:
    """Return a type, and whether null is a branch of its union."""
    if isinstance(value, str):
        return primitive(value, where), False
    members = as_object(value, f"{where}.dataType")
    word = members.get("type")
    if isinstance(word, list):
        return _union(word, members, where, findings)
    if isinstance(word, Mapping):
        findings.extend(unknown_members(members, ("type", "name"), f"{where}.dataType"))
        return _data_type(word, where, findings)
    if not isinstance(word, str):
        raise ShapeError((f"{where} has no type", 'For example "dataType":{"type":"string"}.'))
    return _typed(word.lower(), members, where, findings), False


def _typed(
    word: str, members: Mapping[str, JsonValue], where: str, findings: list[tuple[str, str]]
) -> DataType:
    label = _name(members)
    known = ("type", "name", *_TYPE_MEMBERS.get(word, ()))
    findings.extend(unknown_members(members, known, f"{where}.dataType"))
    match word:
        case "array":
            items, nullable = _inner(members.get("items"), f"{where}[]", findings)
            return ArrayType(items, nullable, label)
        case "map":
            values, nullable = _inner(members.get("values"), f"{where}{{}}", findings)
            return MapType(values, nullable, label)
        case "record" | "object":
            columns = as_array(members.get("values", members.get("fields")), f"{where}.values")
            if not columns:
                raise ShapeError((f"{where} is a record without columns", "Use type map."))
            return RecordType(_columns(columns, f"{where}.", findings), label)
        case "enum":
            return _enum(members, label, where)
        case "decimal":
            return _decimal(members, where)
        case _:
            return primitive(word, where)


def _inner(value: JsonValue, where: str, findings: list[tuple[str, str]]) -> tuple[DataType, bool]:
    """Return the type of array items or map values: a word, a type, or a column without name."""
    if isinstance(value, Mapping) and "dataType" in value:
        findings.extend(unknown_members(value, COLUMN_MEMBERS, where))
        inner, has_null = _data_type(value["dataType"], where, findings)
        return inner, _nullable(value.get("isNullable"), where) or has_null
    if value is None:
        raise ShapeError((f"{where} has no type", 'Add its type, for example "string".'))
    inner, _ = _data_type(value, where, findings)
    return inner, True


def _enum(members: Mapping[str, JsonValue], name: str, where: str) -> EnumType:
    symbols = [str(symbol) for symbol in as_array(members.get("symbols"), f"{where}.symbols")]
    if not symbols or len(set(symbols)) < len(symbols):
        raise ShapeError((f"{where} needs symbols, each once", 'For example "symbols":["A","B"].'))
    unfit = [symbol for symbol in symbols if not COLUMN_NAME.fullmatch(symbol)]
    if unfit:
        raise ShapeError(
            (
                f'{where} has the symbol "{unfit[0]}", which Avro cannot hold',
                "Use letters, digits and underscore, or type string.",
            )
        )
    return EnumType(name, tuple(symbols))


def _decimal(members: Mapping[str, JsonValue], where: str) -> Primitive:
    try:
        precision = int(str(members.get("precision", 38)))
        scale = int(str(members.get("scale", 0)))
    except ValueError as error:
        raise ShapeError(
            (
                f"{where} has a precision or scale that is no number",
                'For example "precision":18,"scale":2.',
            )
        ) from error
    if not (1 <= precision <= _MAX_DECIMAL_DIGITS and 0 <= scale <= precision):
        raise ShapeError(
            (f"{where} has an impossible decimal({precision},{scale})", "0 <= scale <= precision.")
        )
    return Primitive("decimal", precision, scale)


def _union(
    branches: Sequence[JsonValue],
    members: Mapping[str, JsonValue],
    where: str,
    findings: list[tuple[str, str]],
) -> tuple[DataType, bool]:
    """Return the type that can hold the values of every branch of a union, without null.

    A column of a file has one type. A union of numbers becomes the widest number type, a union of
    other flat types becomes text.
    """
    others = [branch for branch in branches if branch != "null"]
    if not others:
        raise ShapeError((f"{where} is only ever null", 'For example ["string","null"].'))
    if len(others) > 1:
        words = []
        for other in others:
            word = other.get("type") if isinstance(other, Mapping) else other
            if not isinstance(word, str) or word.lower() in _NESTED:
                raise ShapeError(
                    (
                        f"{where} is a union of an array, map or record with another type, and a "
                        "column has one type",
                        "Declare the column as json if the source is JSON, else leave it out.",
                    )
                )
            words.append(primitive(word, where).word)
        return _widest(words), len(others) < len(branches)
    only = others[0]
    branch: JsonValue = {**members, "type": only} if isinstance(only, str) else only
    data_type, _ = _data_type(branch, where, findings)
    return data_type, len(others) < len(branches)


def _widest(words: Sequence[str]) -> Primitive:
    if len(set(words)) == 1:
        return Primitive(words[0])
    if JSON in words:
        return Primitive(JSON)
    if set(words) <= {"int", "long"}:
        return Primitive("long")
    return Primitive("double" if set(words) <= {"int", "long", "float", "double"} else "string")


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


def _cleansing(value: JsonValue, _around: ReadContext) -> SchemaCleansing:
    cleansing = build(SchemaCleansing, as_object(value))
    check_regex(cleansing.pattern, "pattern")
    return cleansing


_Columns = Annotated[
    Schema,
    Written(ValueType.JSON_ARRAY, read=_output_schema, reads_empty=True, members=_COLUMN_TEXTS),
]
_Target = Annotated[
    Schema, Written(ValueType.JSON_ARRAY, read=_target_schema, members=_COLUMN_TEXTS)
]
_Cleansing = Annotated[SchemaCleansing, Written(ValueType.JSON_OBJECT, read=_cleansing)]


@dataclass(frozen=True, slots=True)
class SchemaSection(Section):
    """The columns of rows, and what happens to rows with other columns."""

    columns: _Columns = prop(
        SCHEMA,
        "Columns of the rows: name, type, whether null is allowed. Turns inference off.",
        default=(),
        example=_COLUMNS_EXAMPLE,
    )
    target: _Target = prop(
        TARGET,
        "Columns of the rows that a normaliser or range generator makes.",
        default=(),
        example=_TARGET_EXAMPLE,
    )
    columns_urn: PathText = prop(
        "ms.source.schema.urn",
        "File with the columns of the rows, used if `ms.output.schema` is left out: an Avro "
        "schema, "
        "or an array as in `ms.output.schema`. Columns that `ms.derived.fields` makes are left "
        "out. A `urn:` of DIL's metadata store is refused.",
        default="",
        example="schemas/orders.avsc",
    )
    target_urn: PathText = prop(
        "ms.target.schema.urn",
        "File with the columns of `ms.target.schema`, in the same forms; columns of derived fields "
        "stay.",
        default="",
        example="schemas/regions.avsc",
    )
    filters: Bool = prop(
        FILTERS,
        "Whether only the columns of `ms.output.schema` pass. `false` lets JSON rows pass whole: "
        "members that are not listed become further columns, with inferred types.",
        default=True,
    )
    contract: Annotated[ContractMode, ONE_OF] = prop(
        CONTRACT,
        "What happens to a new column or a value of another type, compared with `ms.output.schema` "
        "or, without it, with the schema of the rows published so far. evolve: without "
        "`ms.output.schema` both are accepted and reported as drift; with it, new columns are left "
        "out, and the run names them. freeze: the work unit fails. discard_row: the row goes to "
        "quarantine. discard_value: the new column is left out, the unfit value becomes null. "
        "If no schema is known, the first run makes it. Under freeze, discard_row and "
        "discard_value, members of JSON rows that `ms.output.schema` does not list count as new "
        "columns, whatever `ms.enable.schema.based.filtering` says; under evolve only with "
        "`ms.enable.schema.based.filtering=false`.",
        default=ContractMode.EVOLVE,
    )
    keeps_rejects: Bool = prop(
        "ms.quarantine.enabled",
        "Whether rows that are put aside are kept, with the reason, in the dataset's folder "
        "`_quarantine`.",
        default=True,
    )
    max_rejects: Annotated[Long, Ge(-1)] = prop(
        "ms.quarantine.max.rows",
        "Most rows that a work unit may put aside before it fails; with 0 it fails at the first "
        "row, -1 is no limit.",
        default=-1,
    )
    cleansing: _Cleansing = prop(
        "ms.schema.cleansing",
        "Replaces matches of `pattern` in column names by `replacement`. On by default; "
        "`enabled` false turns it off, `nullable` makes every inferred column nullable.",
        default_factory=SchemaCleansing,
        example='{"pattern": "[^A-Za-z0-9_]", "replacement": "_"}',
    )
