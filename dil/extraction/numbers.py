"""Keeps JSON numbers without loss."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

MAX_EXPONENT = 400  # More digits than any type holds, but few enough to calculate with.
FLOAT32_MAX = 3.4028235677973366e38
EXACT_IN_DOUBLE = 2**53  # Every integer up to here has an exact double.
_SHORT = 16  # At most 15 digits and a point: such a number text survives a double.


class NumberText(str):
    """The exact text of a JSON number that has a fraction or an exponent."""

    __slots__ = ()


def number_of(text: str) -> Decimal | None:
    """Return the number of a text, None if its exponent is beyond ``MAX_EXPONENT``."""
    try:
        number = Decimal(text) or Decimal(0)  # a zero has no exponent
    except InvalidOperation:
        return None
    return number if abs(number.adjusted()) <= MAX_EXPONENT else None


def exact_number(text: str) -> float | Decimal:
    """Return a fraction as a float if a float keeps its value, else as a Decimal.

    >>> exact_number("0.10"), exact_number("0.12345678901234567890")
    (0.1, Decimal('0.12345678901234567890'))

    Raises:
        ValueError: the exponent is beyond those of decimals.
    """
    value = float(text)
    if len(text) <= _SHORT and "e" not in text and "E" not in text:
        return value
    shortest = repr(value)
    if shortest == text:
        return value
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise ValueError("Exponent out of range") from None
    return value if Decimal(shortest) == exact else exact
