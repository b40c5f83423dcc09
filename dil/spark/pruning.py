"""Takes a query's filters from Spark, and finds Parquet row groups that they rule out.

The statistics in a file's footer show which these are. Spark itself applies the filters to all rows
that are read, so filters are used here only to read less. If a comparison has no sure answer, the
row group is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader

from dil.reshaping.dataset_reading import Statistics

_COMPARED: dict[str, Callable[[Any, Any, Any], bool]] = {
    "EqualTo": lambda least, most, value: least <= value <= most,
    "EqualNullSafe": lambda least, most, value: least <= value <= most,
    "GreaterThan": lambda _, most, value: most > value,
    "GreaterThanOrEqual": lambda _, most, value: most >= value,
    "LessThan": lambda least, _, value: least < value,
    "LessThanOrEqual": lambda least, _, value: least <= value,
    "In": lambda least, most, values: any(least <= value <= most for value in values),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter of Spark, by the name of its class: a comparison of a column with a value."""

    kind: str
    column: str
    value: Any

    def may_hold(self, statistics: Statistics) -> bool:
        """Return whether any row of a row group may meet the condition."""
        found = statistics(self.column)
        if found is None:
            return True
        least, most, nulls, rows = found
        if self.kind == "IsNull":
            return nulls > 0
        if self.kind == "IsNotNull":
            return nulls < rows
        if isinstance(least, float):  # statistics lack NaN, which Spark orders above all numbers
            return True
        try:
            return _COMPARED[self.kind](least, most, self.value)
        except TypeError:  # the value is null, or of another kind than the file's values
            return True


@dataclass(frozen=True, slots=True)
class Pruning:
    """Conditions that all have to hold; can be pickled."""

    conditions: tuple[Condition, ...]

    def __call__(self, statistics: Statistics) -> bool:
        """Return whether the row group may have rows for each of the conditions."""
        return all(each.may_hold(statistics) for each in self.conditions)


def pruning_of(filters: Sequence[object]) -> Pruning:
    """Return the conditions for those of Spark's filters that statistics can answer."""
    known = (*_COMPARED, "IsNull", "IsNotNull")
    found = []
    for each in filters:
        kind = type(each).__name__
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        # In a footer, a name with a dot may also be the name of a member.
        if kind in known and len(attribute) == 1 and "." not in attribute[0]:
            found.append(Condition(kind, attribute[0], getattr(each, "value", None)))
    return Pruning(tuple(found))


class FilterHints:
    """``pushFilters`` of a reader that gives every filter back.

    If filter pushdown is off, Spark refuses a reader that overrides the method, and its error does
    not name the setting. Spark compares ``__func__`` with the method of the base class, and here
    they are equal. This object does the same as that method, and also calls ``listen``.
    """

    # Static, so that it is not bound to this object; Spark 4.0 lacks the method and the check.
    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", None) or list)

    def __init__(self, listen: Callable[[Sequence[object]], None]) -> None:
        self._listen = listen

    def __call__(self, filters: list[Any]) -> Iterator[Any]:
        """Return all filters, for Spark to apply."""
        self._listen(filters)
        return iter(filters)
