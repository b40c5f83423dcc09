"""Finds the types of columns by looking at values (rule F17).

Values are examined column by column, over all rows of a page. A shape only widens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

from dil.errors import SourceContractError
from dil.extraction.names import below
from dil.extraction.numbers import EXACT_IN_DOUBLE
from dil.extraction.sizes import Width
from dil.model.schema import (
    TYPE_SYNONYMS,
    ArrayType,
    Column,
    DataType,
    MapType,
    Primitive,
    RecordType,
    Schema,
)
from dil.types.lattice import MOST_DIGITS
from dil.types.number_texts import plain

T = TypeVar("T")

_INT = 2**31
_LONG = 2**63
_DOUBLE_SCALE = 15


@dataclass(slots=True)
class FoundNumbers:
    """The facts about the numbers of one column.

    ``scale`` and ``digits`` count decimal places and integer digits; counting starts at the first
    value that a double cannot hold, because only decimals need the counts.
    """

    low: int = 0
    high: int = 0
    has_fractions: bool = False
    needs_decimal: bool = False
    scale: int = 0
    digits: int = 0

    def observe(self, values: Sequence[Any], kinds: set[type]) -> None:
        """Add the numbers among the values of a column to the facts."""
        if int in kinds:
            whole = values if len(kinds) == 1 else [v for v in values if type(v) is int]
            low, high = min(whole), max(whole)
            self.low, self.high = min(self.low, low), max(self.high, high)
        self._note(fractions=bool(kinds & {float, Decimal}), decimals=Decimal in kinds)
        if self.needs_decimal:
            for value in values:
                if isinstance(value, float | Decimal):
                    self._measure(Decimal(str(value)))

    def widen(self, other: FoundNumbers) -> None:
        """Add the facts about the numbers of another page; see ``FoundShape.holds_decimals``."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self._note(fractions=other.has_fractions, decimals=other.needs_decimal)
        self.scale, self.digits = max(self.scale, other.scale), max(self.digits, other.digits)

    def word(self) -> Primitive:
        """Return the narrowest type that holds all numbers exactly, string if no type does."""
        digits = max(self.digits, len(str(max(self.high, -self.low))))
        if self.has_fractions and not self.needs_decimal:
            return Primitive("double")
        if self.has_fractions:
            fits = digits + self.scale <= MOST_DIGITS
            return Primitive("decimal", MOST_DIGITS, self.scale) if fits else Primitive("string")
        if self.low >= -_INT and self.high < _INT:
            return Primitive("int")
        if self.low >= -_LONG and self.high < _LONG:
            return Primitive("long")
        return (
            Primitive("decimal", MOST_DIGITS, 0) if digits <= MOST_DIGITS else Primitive("string")
        )

    @property
    def _is_wide(self) -> bool:
        """Return whether some integer has no exact double."""
        return self.high > EXACT_IN_DOUBLE or self.low < -EXACT_IN_DOUBLE

    def _note(self, *, fractions: bool, decimals: bool) -> None:
        """Record whether new numbers have fractions, and whether doubles hold them exactly."""
        had_doubles = self.has_fractions and not self.needs_decimal
        self.has_fractions = self.has_fractions or fractions
        if decimals or (self.has_fractions and self._is_wide):
            self.needs_decimal = True
        if had_doubles and self.needs_decimal:
            # The doubles of earlier pages were not measured; they have about this many exact
            # decimal places.
            self.scale = max(self.scale, _DOUBLE_SCALE)

    def _measure(self, number: Decimal) -> None:
        exponent = plain(number).as_tuple().exponent
        places = -exponent if isinstance(exponent, int) else 0
        self.scale = max(self.scale, places)
        self.digits = max(self.digits, number.adjusted() + 1)


@dataclass(slots=True)
class FoundShape:
    """The facts about one column; a column whose values are all null has no kinds.

    The shapes of all columns of the same rows share one ``width``, which counts these columns.
    """

    kinds: set[str] = field(default_factory=set)
    numbers: FoundNumbers = field(default_factory=FoundNumbers)
    members: dict[str, FoundShape] = field(default_factory=dict)
    items: FoundShape | None = None
    width: Width = field(default_factory=lambda: Width(most=0), compare=False, repr=False)

    def observe(self, values: Sequence[Any]) -> None:
        """Add all values of the column to the facts; fractions come from ``exact_number``.

        Raises:
            SourceContractError: there are too many columns.
        """
        kinds = set(map(type, values))
        kinds.discard(type(None))
        self.kinds.update(_WORDS[kind] for kind in kinds)
        if kinds & {int, float, Decimal}:
            self.numbers.observe(values, set(map(type, values)))
        if dict in kinds:
            self._observe_objects([value for value in values if type(value) is dict])
        if list in kinds:
            self.items = self.items or FoundShape(width=self.width)
            arrays = (value for value in values if type(value) is list)
            self.items.observe(list(chain.from_iterable(arrays)))

    def widen(self, other: FoundShape) -> None:
        """Add the facts of another page; new members come last.

        Raises:
            SourceContractError: there are too many columns.
        """
        self.kinds |= other.kinds
        self.numbers.widen(other.numbers)
        self._add_members(other.members)
        for name, shape in other.members.items():
            self.members[name].widen(shape)
        if other.items is not None:
            self.items = self.items or FoundShape(width=self.width)
            self.items.widen(other.items)

    def holds_decimals(self) -> bool:
        """Return whether a column, here or below, needs decimals, so that doubles must be measured.

        If so, the page that ``widen`` got its facts from must be observed again, because the
        doubles of this page were not measured.
        """
        inner = [*self.members.values(), *([self.items] if self.items else [])]
        return self.numbers.needs_decimal or any(shape.holds_decimals() for shape in inner)

    def levels(self, path: str = "") -> Iterator[tuple[str, list[str]]]:
        """Yield the names of each level of objects below this column, with its path."""
        if self.members:
            yield path, list(self.members)
        for name, shape in self.members.items():
            yield from shape.levels(below(path, name))
        if self.items is not None:
            yield from self.items.levels(path)

    def columns(
        self, defaults: Mapping[str, str], path: str = "", given: Schema = ()
    ) -> tuple[Column, ...]:
        """Return the members as columns, all nullable, because later pages may lack them.

        The ``given`` columns come first and keep their types; the types of other columns are found.

        Raises:
            SourceContractError: a column holds objects or arrays in some rows and other values in
                other rows.
        """
        known = {column.name for column in given}
        first = (
            replace(
                each,
                type=self.members[each.name].completed(each.type, defaults, f"{path}{each.name}"),
            )
            if each.name in self.members
            else each
            for each in given
        )
        found = (
            Column(name, shape.data_type(name, defaults, f"{path}{name}"))
            for name, shape in self.members.items()
            if name not in known
        )
        return (*first, *found)

    def completed(self, given: DataType, defaults: Mapping[str, str], path: str) -> DataType:
        """Return a given type, plus the members that the rows have and the type lacks."""
        if isinstance(given, RecordType):
            return replace(given, columns=self.columns(defaults, f"{path}.", given.columns))
        if isinstance(given, ArrayType) and self.items is not None:
            return replace(given, items=self.items.completed(given.items, defaults, f"{path}[]"))
        return given

    def data_type(self, name: str, defaults: Mapping[str, str], path: str) -> DataType:
        """Return the type of the column; ``defaults`` are ms.data.default.type."""
        if not self.kinds & {"record", "array"}:
            forced = defaults.get(name, "").lower()
            return Primitive(TYPE_SYNONYMS.get(forced, forced)) if forced else self._primitive()
        if len(self.kinds) > 1:
            raise SourceContractError(
                f'column "{path}" holds {" and ".join(sorted(self.kinds))} values',
                "Let all rows have the same kind at the source, or list the columns in"
                " ms.output.schema: declare this column as json, or the one around it, if the"
                " source is JSON, or leave it out.",
            )
        if "array" in self.kinds:
            items = self.items or FoundShape()
            return ArrayType(items.data_type("", defaults, f"{path}[]"), name=name)
        if not self.members:
            return MapType(Primitive("string"), name=name)
        return RecordType(self.columns(defaults, f"{path}."), name=name)

    def _primitive(self) -> Primitive:
        if self.kinds == {"number"}:
            return self.numbers.word()
        return Primitive("boolean") if self.kinds == {"boolean"} else Primitive("string")

    def _observe_objects(self, objects: list[dict[str, Any]]) -> None:
        names = dict.fromkeys(chain.from_iterable(objects))
        self._add_members(names)
        for name in names:
            self.members[name].observe(member_values(objects, name))

    def _add_members(self, names: Iterable[str]) -> None:
        new = [name for name in names if name not in self.members]
        self.width.add(len(new))
        self.members.update((name, FoundShape(width=self.width)) for name in new)


_WORDS: dict[type, str] = {
    str: "text",
    bool: "boolean",
    int: "number",
    float: "number",
    Decimal: "number",
    dict: "record",
    list: "array",
}


def member_values(objects: Sequence[Mapping[str, T]], name: str) -> list[T | None]:
    """Return one member of many objects, None for objects that lack it."""
    try:
        return list(map(itemgetter(name), objects))
    except KeyError:
        return [value.get(name) for value in objects]
