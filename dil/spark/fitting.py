"""Fits rows into the schema that Spark got before the first row was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from dil.errors import ConversionError, SourceContractError
from dil.types.widening import conform

_FIX = (
    'Give the columns: .schema("id bigint, name string"), or ms.output.schema in the job file. With'
    ' .option("previewRows", "100000") they are inferred from more rows.'
)


@dataclass(frozen=True, slots=True)
class Fit:
    """Converts rows to Spark's schema.

    ``is_inferred`` says that the columns were inferred. Then a value without a column is an error.
    Otherwise the user chose to leave that column out.
    """

    target: pa.Schema
    is_inferred: bool

    def fitted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches in the target schema, with every value unchanged.

        Raises:
            SourceContractError: the schema was inferred, and rows have a column that it lacks.
            ConversionError: a value does not fit its column exactly.
        """
        for batch in batches:
            if self.is_inferred and (name := _left_out(batch.schema, self.target)):
                raise SourceContractError(
                    f'column "{name}" is not among those that were inferred from the first rows',
                    _FIX,
                )
            try:
                yield conform(batch, self.target)
            except ConversionError as error:
                raise ConversionError(error.message, _FIX) from error


def _left_out(found: Iterable[pa.Field], target: Iterable[pa.Field], above: str = "") -> str:
    """Return the first column or member that the target lacks, as text; empty if it lacks none."""
    known = {field.name: field.type for field in target}
    for field in found:
        if field.name not in known:
            return f"{above}{field.name}"
        if field.type != known[field.name] and (
            inner := _left_out_inside(field.type, known[field.name], f"{above}{field.name}")
        ):
            return inner
    return ""


def _left_out_inside(found: pa.DataType, target: pa.DataType, name: str) -> str:
    if pa.types.is_struct(found) and pa.types.is_struct(target):
        return _left_out(list(found), list(target), f"{name}.")
    if pa.types.is_list(found) and pa.types.is_list(target):
        return _left_out_inside(found.value_type, target.value_type, f"{name}[]")
    if pa.types.is_map(found) and pa.types.is_map(target):
        return _left_out_inside(found.item_type, target.item_type, f"{name}.*")
    return ""
