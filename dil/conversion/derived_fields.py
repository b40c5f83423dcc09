"""Derived fields: columns that are calculated for each row and added after the source's columns.

See docs/rows.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.derived_results import BadValueError, DerivedValues, refused, results_of
from dil.conversion.row_paths import SearchError, find_column
from dil.conversion.texts import text_of
from dil.errors import ConfigError
from dil.model.arrow import TYPE_KEY
from dil.model.json import JsonValue, as_text
from dil.model.path import Missing
from dil.model.settings import DerivedField
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.text.instants import InstantError, parse_instant

_KEY = "ms.derived.fields"
_VARIABLE = re.compile(r"\{\{([^{}]+)\}\}")
_DAYS_AGO = re.compile(r"P\d+D")


class DerivedFields(Converter):
    """Adds the job's derived fields; a field cannot use the value of another derived field.

    If a column has the field's name, in any letter case, the column keeps its place and declared
    type, and gets the derived values. ``warnings`` counts the rows in which an epoc formula without
    a format gets a value that is no integer; the result is then 0.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self.warnings = 0
        self._rows = 0
        self._plans = [_plan(derived, context) for derived in context.job.conversion.derived_fields]

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch with the derived columns."""
        columns = list(batch.columns)
        fields = list(batch.schema)
        places = {field.name.lower(): index for index, field in enumerate(fields)}
        for plan in self._plans:
            array = self._values(plan, batch, facts)
            place = places.get(plan.name.lower())
            if place is None:
                fields.append(
                    pa.field(
                        plan.name,
                        plan.results.data_type,
                        plan.nullable,
                        {TYPE_KEY: plan.results.word.encode()},
                    )
                )
                columns.append(array)
            else:
                fields[place] = fields[place].with_type(array.type)
                columns[place] = array
        self._rows += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _values(self, plan: _Plan, batch: pa.RecordBatch, facts: PageFacts) -> pa.Array:
        try:
            base = plan.base(batch, facts)
            if isinstance(base, pa.Array):
                result = plan.results.convert(base)
                self.warnings += _made_zero(plan, base, result)
                return result
            if isinstance(base, int):  # A point in time needs no format.
                return pa.repeat(pa.scalar(base, plan.results.data_type), batch.num_rows)
            single = pa.array([base], pa.string())
            result = plan.results.convert(single)
        except BadValueError as error:
            raise refused(plan.name, self._rows + error.position + 1, error) from None
        self.warnings += _made_zero(plan, single, result) * batch.num_rows
        return pa.repeat(result[0], batch.num_rows)


def _made_zero(plan: _Plan, base: pa.Array, result: pa.Array) -> int:
    """Return the number of values that became 0 because they were no integers."""
    if not plan.counts_zeros or pa.types.is_integer(base.type) or pa.types.is_temporal(base.type):
        return 0
    made = pc.and_(pc.equal(result, 0), pc.not_equal(text_of(base), "0"))
    count: int = pc.sum(made, min_count=0).as_py()
    return count


Base = Callable[[pa.RecordBatch, PageFacts], "pa.Array | int | str | None"]


@dataclass(frozen=True, slots=True)
class _Plan:
    name: str
    nullable: bool
    results: DerivedValues
    base: Base
    counts_zeros: bool


def _plan(derived: DerivedField, context: ConverterContext) -> _Plan:
    formula = derived.formula
    zone = formula.timezone or context.job.planning.zone
    try:
        results = results_of(formula, zone, context.run_now)
        base = _base(derived, context, zone)
    except ValueError as error:
        raise ConfigError.single(_KEY, f'field "{derived.name}": {error}') from error
    source = formula.source.strip()
    is_column = bool(source) and not _is_clock(source) and not _VARIABLE.fullmatch(source)
    return _Plan(
        derived.name,
        is_column and not formula.value,
        results,
        base,
        formula.type == "epoc" and not formula.format.strip(),
    )


def _is_clock(source: str) -> bool:
    return source.upper() == "CURRENTDATE" or _DAYS_AGO.fullmatch(source) is not None


def _base(derived: DerivedField, context: ConverterContext, zone: str) -> Base:
    """Return the function that takes base values from the first existing source (docs/rows.md)."""
    formula = derived.formula
    source = formula.source.strip()
    if not source:
        return lambda _batch, _facts: formula.value
    if _is_clock(source):
        own = _clock(derived, context.run_now, zone)
    elif variable := _VARIABLE.fullmatch(source):
        own = partial(_variable, name=variable[1], literal=source, default=formula.value)
    else:
        own = partial(_column, path=source, default=formula.value)
    if not context.job.extraction.data_field:
        return own
    return partial(_pushed_down, path=source, default=formula.value, own=own)


def _clock(derived: DerivedField, run_now: int, zone: str) -> Base:
    source = derived.formula.source.strip()
    if derived.formula.type != "epoc":
        raise ConfigError.single(
            _KEY,
            f'field "{derived.name}": source "{source}" is a point in time, so its formula type'
            f" must be epoc, not {derived.formula.type}",
        )
    if source.upper() == "CURRENTDATE":
        now = run_now
    else:
        try:
            now = parse_instant(source, now_ms=run_now, zone=zone, end=False).ms
        except InstantError as error:
            raise ConfigError.single(_KEY, f'field "{derived.name}": {error}') from error
    return lambda _batch, _facts: now


def _variable(
    _batch: pa.RecordBatch, facts: PageFacts, name: str, literal: str, default: str
) -> str:
    if name not in facts.variables:
        return literal
    value = facts.variables[name]
    return default if value is None else as_text(value)


def _pushed_down(
    batch: pa.RecordBatch, facts: PageFacts, path: str, default: str, own: Base
) -> pa.Array | int | str | None:
    """Return the value at a path of the response's root, else the field's own base value."""
    value: JsonValue | Missing = facts.page.lookup(path)
    if isinstance(value, Missing):
        return own(batch, facts)
    if value is None:
        return default or None
    return as_text(value)


def _column(batch: pa.RecordBatch, _facts: PageFacts, path: str, default: str) -> pa.Array:
    try:
        found = find_column(batch, path)
    except SearchError as error:
        raise BadValueError(error.row, str(error)) from None
    if found is None:
        return pa.repeat(pa.scalar(default or None, pa.string()), batch.num_rows)
    if not default or not found.null_count:
        return found
    return text_of(found).fill_null(default)
