"""Reads exact decimals from the texts that a database sends for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dil.types.fitting import cast_texts
from dil.types.lattice import MOST_DIGITS

if TYPE_CHECKING:
    import pyarrow as pa

_USUAL_SCALE = 18


class DecimalColumn:
    """Turns the texts of one column into decimals, batch after batch.

    If the declared precision is at most 38 digits, the column has the declared type. Otherwise it
    is decimal(38, ``scale``); ``scale`` is 18 if it is not known. If the values of a batch do not
    fit this type, the batch gets decimal(38, s) with the scale s that they need. If they do not fit
    this either (more digits, ``NaN``, ``Infinity``), the batch and all later batches become text.
    Writers then widen the column, so nothing is lost.
    """

    def __init__(self, precision: int | None = None, scale: int | None = None) -> None:
        import pyarrow as pa

        declared = precision is not None and precision <= MOST_DIGITS and scale is not None
        if declared and 0 <= (scale or 0) <= (precision or 0):
            self._types: list[pa.DataType] = [pa.decimal128(precision or 1, scale or 0)]
        elif declared and (scale or 0) < 0:
            digits = (precision or 0) - (scale or 0)
            self._types = [pa.decimal128(digits, 0)] if digits <= MOST_DIGITS else []
        else:
            usual = _USUAL_SCALE if scale is None else min(max(scale, 0), MOST_DIGITS)
            self._types = [pa.decimal128(MOST_DIGITS, usual)]

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the values of a batch in the first type that holds them exactly."""
        import pyarrow as pa

        for data_type in (*self._types, None):
            target = data_type or _needed(texts)
            if pa.types.is_string(target):
                break
            try:
                return cast_texts(texts, target)
            except pa.ArrowInvalid:
                continue
        self._types = [pa.string()]  # A column that was text once stays text.
        return texts


def _needed(texts: pa.Array) -> pa.DataType:
    """Return decimal(38, s) with the scale that these texts need; text if that is too much."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fractions = pc.extract_regex(texts, r"\.(?P<digits>[0-9]+)$").field("digits")
    scale = pc.max(pc.utf8_length(fractions)).as_py() or 0
    return pa.decimal128(MOST_DIGITS, scale) if scale <= MOST_DIGITS else pa.string()
