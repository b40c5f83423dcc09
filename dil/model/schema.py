"""Schemas in DIL's columnar form (docs/formats.md), and the contract that rows keep with them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

JSON = "json"
# The names that a schema can hold.
COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TYPE_SYNONYMS = {"integer": "int", "int64": "long", "number": "double"}


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type word: string boolean int long float double decimal bytes date time timestamp json.

    A json column is a column of texts, and each text is one JSON value. TYPE_SYNONYMS has already
    resolved synonyms. ``precision`` and ``scale`` are for decimal only.
    """

    word: str
    precision: int = 38
    scale: int = 0


@dataclass(frozen=True, slots=True)
class EnumType:
    """A type whose values are one of the listed symbols, as text."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type; ``name`` is kept for Avro."""

    items: DataType
    items_nullable: bool = True
    name: str = ""


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from text keys to values of one type."""

    values: DataType
    values_nullable: bool = True
    name: str = ""


@dataclass(frozen=True, slots=True)
class RecordType:
    """Nested columns; ``name`` is kept for Avro."""

    columns: tuple[Column, ...]
    name: str = ""


DataType: TypeAlias = "Primitive | EnumType | ArrayType | MapType | RecordType"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; a missing ``isNullable`` means nullable (rule F18)."""

    name: str
    type: DataType
    nullable: bool = True
    comment: str = ""


Schema: TypeAlias = tuple[Column, ...]


class ContractMode(StrEnum):
    """``ms.schema.contract``: what happens to a new column or a value of another type."""

    EVOLVE = "evolve"
    FREEZE = "freeze"
    DISCARD_ROW = "discard_row"
    DISCARD_VALUE = "discard_value"


@dataclass(frozen=True, slots=True)
class QuarantineSpec:
    """Whether rows that are put aside are kept, and how many a work unit may put aside.

    If ``max_rows`` is None, there is no limit.
    """

    enabled: bool = True
    max_rows: int | None = None
