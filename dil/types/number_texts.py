"""Writes numbers as texts: one text for each number, whatever its type and written form.

A column with numbers in some rows and texts in other rows is text, and may distinguish rows. 100,
100.0 and 1e2 are one number; if each kept a text of its own, the same row would be stored twice.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

_EXACT = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_MOST_DIGITS = 400  # whole numbers with more digits keep an exponent; a double has at most 309
_SMALLEST = -6  # fractions below 0.000001 have an exponent, as in Arrow's texts
_FOUND_DIGITS = 38


def plain(number: Decimal) -> Decimal:
    """Return the number without trailing zeros, with all its digits (up to 2000)."""
    return number.normalize(_EXACT)


def number_text(text: str) -> str:
    """Return the normal text of a number from any written form of it.

    >>> [number_text(text) for text in ("100.0", "1e2", "-0.0", "1.50", "25E-9", "7")]
    ['100', '100', '0', '1.5', '2.5e-8', '7']
    """
    number = plain(Decimal(text))
    if not number.is_finite():
        return text
    if not number:
        return "0"
    if _SMALLEST <= number.adjusted() <= _MOST_DIGITS:
        return f"{number:f}"
    sign, digits, _ = number.as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    return f"{'-' * sign}{first}{'.' if rest else ''}{rest}e{number.adjusted()}"


def texts_of_numbers(array: pa.Array) -> pa.Array:
    """Return the texts of a column of integers, fractions or decimals.

    Decimals that a source declared keep the decimal places of their type, as in databases. Decimals
    found in texts have 38 digits, and decimal places that may come only from other rows.
    """
    texts = array.cast(pa.string())
    if pa.types.is_integer(array.type):
        return texts
    if pa.types.is_decimal(array.type):
        if array.type.precision != _FOUND_DIGITS:
            return texts
        texts = pc.replace_substring_regex(texts, r"^(-?\d+)(\.0*|(\.\d*[1-9])0*)$", r"\1\3")
        unsettled = pc.match_substring(texts, "E")
    else:
        unsettled = pc.or_(pc.match_substring(texts, "e"), pc.equal(texts, "-0"))
    if not pc.any(unsettled, min_count=0).as_py():
        return texts
    encoded = texts.dictionary_encode()
    words = [number_text(word) for word in encoded.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(encoded.indices)
