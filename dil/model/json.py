"""JSON values with exact numbers, and their one compact text form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Self, TypeAlias, cast

# Python neither reads nor writes the text of a longer integer.
_MOST_DIGITS = 4300


class WrittenNumber(Decimal):
    """A number whose text is kept as it was written: 1e5 stays 1e5, and 1.0 stays 1.0.

    The JSON library of LinkedIn's DIL does the same, and the text of units is part of signatures
    (rule P17). A number that is calculated from such a number is a plain Decimal.
    """

    __slots__ = ("_text",)

    _text: str

    def __new__(cls, text: str) -> Self:
        """Return the number of a JSON text."""
        number = super().__new__(cls, text)
        number._text = text
        return number

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._text,)


def read_number(text: str) -> int | Decimal:
    """Return the exact value of a JSON number; a whole number without exponent becomes an int.

    Raises:
        ValueError: the number has too many digits, or its exponent is too large.
    """
    whole = text.removeprefix("-")
    if whole.isdecimal() and text != "-0":  # -0 is no int, or its sign would be lost.
        if len(whole) > _MOST_DIGITS:
            raise ValueError(f"a number has more than {_MOST_DIGITS:,} digits")
        return int(text)
    try:
        return WrittenNumber(text)
    except InvalidOperation:
        raise ValueError(f"the exponent of {text} is too large") from None


JsonValue: TypeAlias = (
    "bool | int | float | Decimal | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
JsonObject: TypeAlias = Mapping[str, JsonValue]

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SEPARATORS = {0x2028: "\\u2028", 0x2029: "\\u2029"}


def compact(value: JsonValue) -> str:
    """Return a value as JSON without blanks, with members in their order and non-ASCII unescaped.

    Decimals are written as numbers with their own text. The two line separators of Unicode are
    escaped, as in LinkedIn's DIL, because this text is part of signatures.
    """
    # The encoder of the standard library is fast, but knows no Decimals and no other mappings.
    with suppress(TypeError):
        return _COMPACT.encode(value).translate(_SEPARATORS)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        members = ",".join(f"{compact(str(name))}:{compact(item)}" for name, item in value.items())
        return f"{{{members}}}"
    items = cast("Sequence[JsonValue]", value)
    return f"[{','.join(map(compact, items))}]"


def indented(value: object, margin: str = "") -> str:
    """Return a value as indented JSON for people and machines: plain ASCII, two blanks a level.

    Unlike the standard library, this writes Decimals as numbers with their own text.
    """
    deeper = margin + "  "
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping) and value:
        members = (
            f"{json.dumps(str(name))}: {indented(item, deeper)}" for name, item in value.items()
        )
        return f"{{\n{deeper}" + f",\n{deeper}".join(members) + f"\n{margin}}}"
    if isinstance(value, list | tuple) and value:
        items = (indented(item, deeper) for item in value)
        return f"[\n{deeper}" + f",\n{deeper}".join(items) + f"\n{margin}]"
    return json.dumps(dict(value) if isinstance(value, Mapping) else value)


def as_text(value: JsonValue) -> str:
    """Return a value as it appears in a URI, a header or a file name.

    Text stays as it is, booleans become ``true`` and ``false``, whole numbers have no point, arrays
    and objects become compact JSON, and null becomes empty text. A number with a huge exponent
    keeps the exponent. See rule G34.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return str(int(value)) if value.adjusted() < _MOST_DIGITS or not value else str(value)
    return compact(value)
