"""Converts cells to a type: all at once if Arrow is exact, else each distinct text by itself.

See docs/formats.md, rule F19. Only sign, digits, point and exponent make a number, and nothing is
rounded except in float and double columns.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from dil.extraction.numbers import EXACT_IN_DOUBLE, FLOAT32_MAX, exact_number, number_of
from dil.extraction.shapes import FoundNumbers, FoundShape
from dil.types.fitting import exact_cast
from dil.types.number_texts import number_text, plain, texts_of_numbers

_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_RE2_NUMBER = f"^{_NUMBER.pattern}$"
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_SAMPLE = 64
_SHORT = 15  # A number of up to this many characters is exact as a double, and less than 2^53.
_MAX_DIGITS = 40
_BITS = {pa.int32(): 31, pa.int64(): 63}

Read = Callable[[str], object]


def observed(cells: pa.Array) -> tuple[FoundShape, pa.Array | None]:
    """Return the shape of a column's cells that are not null, and the cells as numbers or None.

    If finding the shape required reading the numbers, they come in the form of ``values_of``.
    """
    sample = cells.slice(0, _SAMPLE).drop_null() or cells.drop_null().slice(0, _SAMPLE)
    texts = sample.to_pylist()
    if not texts:
        return FoundShape(), None
    if all(_NUMBER.fullmatch(text) for text in texts):
        return _observed_numbers(cells)
    words = ["true", "false"]
    if {text.lower() for text in texts}.issubset(words) and pc.all(
        pc.is_in(pc.ascii_lower(cells.drop_null()), pa.array(words))
    ).as_py():
        return FoundShape({"boolean"}), None
    return FoundShape({"text"}), None


def measured(cells: pa.Array) -> list[object]:
    """Return each distinct cell as an exact number, for a column that needs decimals."""
    return [_exact(text) for text in cells.drop_null().unique().to_pylist()]


def are_own_texts(cells: pa.Array, shape: FoundShape, numbers: pa.Array | None) -> bool:
    """Return whether each cell equals the text in which its value would be written.

    ``shape`` and ``numbers`` are the results of ``observed``. The cells of a key must pass this
    check: else rows with ``7`` and ``007`` would become one row.
    """
    if numbers is not None:
        return bool(pc.all(pc.equal(texts_of_numbers(numbers), cells), min_count=0).as_py())
    texts = cells.drop_null().unique().to_pylist()
    if "boolean" in shape.kinds:
        return set(texts) <= {"true", "false"}
    return "number" not in shape.kinds or list(map(number_text, texts)) == texts


def values_of(cells: pa.Array, kind: pa.DataType, *, cuts: bool) -> pa.Array:
    """Return text cells converted to a raw type; a cell that does not fit the type becomes null.

    If ``cuts`` is true, numbers lose their fraction in integer types: ``5.9`` becomes 5. A boolean
    is true if the text is ``true`` in any letter case.
    """
    if kind == pa.string():
        return cells
    if kind == pa.bool_():
        return pc.equal(pc.ascii_lower(cells), "true")
    quick = _quick(cells, kind)
    if quick is not None:
        return quick
    read = _reader(kind, cuts=cuts)
    encoded = cells.dictionary_encode()
    converted = pa.array([read(text) for text in encoded.dictionary.to_pylist()], kind)
    return converted.take(encoded.indices)


def _quick(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return the values as Arrow reads them; None if Arrow cannot, or is not strict enough."""
    try:
        # A failed cast makes an error for every cell, so try a few cells first.
        exact_cast(cells.slice(0, _SAMPLE), kind)
        if not pa.types.is_floating(kind):
            return None if _has(cells, "x") else exact_cast(cells, kind)
        numbers = cells.cast(pa.float64())
        numbers = numbers if kind == pa.float64() else numbers.cast(kind)
    except pa.ArrowInvalid:
        return None
    return numbers if pc.all(pc.is_finite(numbers), min_count=0).as_py() else None


def _has(cells: pa.Array, letter: str) -> bool:
    """Return whether any cell has a letter, small or capital."""
    buffer = cells.buffers()[-1]
    texts = b"" if buffer is None else buffer.to_pybytes()
    if letter.encode() not in texts and letter.upper().encode() not in texts:
        return False
    return bool(pc.any(_holds(cells, letter), min_count=0).as_py())


def _holds(cells: pa.Array, letter: str) -> pa.Array:
    return pc.or_(pc.match_substring(cells, letter), pc.match_substring(cells, letter.upper()))


def _observed_numbers(texts: pa.Array) -> tuple[FoundShape, pa.Array | None]:
    """Return the shape of a column whose first cells are numbers, and its numbers or None."""
    shape = FoundShape({"number"})
    if (whole := _whole(texts)) is not None:
        bounds = pc.min_max(whole)
        shape.numbers.observe([bounds["min"].as_py(), bounds["max"].as_py()], {int})
        return shape, whole
    doubles = _quick(texts, pa.float64())
    if doubles is not None and _are_exact(doubles, texts):
        shape.numbers.widen(_numbers(doubles))
        return shape, doubles
    if doubles is None and not pc.all(pc.match_substring_regex(texts, _RE2_NUMBER)).as_py():
        return FoundShape({"text"}), None
    exact = measured(texts)
    if any(isinstance(value, str) for value in exact):
        return FoundShape({"text"}), None  # more than any number type holds
    shape.numbers.observe(exact, set(map(type, exact)))
    return shape, None


def _are_exact(doubles: pa.Array, texts: pa.Array) -> bool:
    """Return whether the doubles equal the numbers of the texts, also for integers.

    A text is exact if it is short, or equal to the text that Arrow writes for the double. If a
    number is so large that integers of its size may have no double, the result is False.
    """
    if pc.max(pc.abs(doubles)).as_py() >= EXACT_IN_DOUBLE:
        return False
    is_long = pc.greater(pc.binary_length(texts), _SHORT)
    if _has(texts, "e"):
        is_long = pc.or_(is_long, _holds(texts, "e"))
    if not pc.any(is_long).as_py():
        return True
    written = doubles.filter(is_long).cast(pa.string())
    return bool(pc.all(pc.equal(written, texts.filter(is_long))).as_py())


def _whole(texts: pa.Array) -> pa.Array | None:
    """Return the texts as 64 bit integers; None if one is no integer or has a plus sign."""
    if bool(pc.any(pc.starts_with(texts, "+")).as_py()):
        return None
    return _quick(texts, pa.int64())


def _numbers(doubles: pa.Array) -> FoundNumbers:
    """Return facts about exact numbers with fractions; the bounds may be wider than the numbers."""
    bounds = pc.min_max(doubles)
    low, high = int(bounds["min"].as_py()) - 1, int(bounds["max"].as_py()) + 1
    return FoundNumbers(min(low, 0), max(high, 0), has_fractions=True)


def _exact(text: str) -> object:
    """Return an integer or a fraction without loss; the text itself if no number can hold it."""
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS else text
    try:
        return exact_number(text)
    except ValueError:
        return text


def _reader(kind: pa.DataType, *, cuts: bool) -> Read:
    if pa.types.is_floating(kind):
        limit = FLOAT32_MAX if kind == pa.float32() else sys.float_info.max
        return _floating(limit)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    return _integer(_BITS[kind], cuts=cuts)


def _number(text: str) -> Decimal | None:
    stripped = text.strip(_JAVA_BLANKS)
    return number_of(stripped) if _NUMBER.fullmatch(stripped) else None


def _integer(bits: int, *, cuts: bool) -> Read:
    def read(text: str) -> object:
        number = _number(text)
        if number is None:
            return None
        whole = int(number)
        if (whole != number and not cuts) or not -(2**bits) <= whole < 2**bits:
            return None
        return whole

    return read


def _floating(limit: float) -> Read:
    def read(text: str) -> object:
        stripped = text.strip(_JAVA_BLANKS)
        number = float(stripped) if _NUMBER.fullmatch(stripped) else limit * 2
        return number if abs(number) <= limit else None

    return read


def _decimal(precision: int, scale: int) -> Read:
    def read(text: str) -> object:
        number = _number(text)
        if number is None:
            return None
        places = plain(number).as_tuple().exponent
        has_room = number == 0 or number.adjusted() + 1 <= precision - scale
        return number if has_room and isinstance(places, int) and -places <= scale else None

    return read
