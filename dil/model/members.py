"""Declares members of JSON properties: type, bounds and meaning.

A model is a frozen dataclass whose fields carry the arguments of pydantic's ``Field`` as metadata,
where pydantic finds them when the driver reads a job. Nothing here imports pydantic, so a model
travels to tasks as the plain value that it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast, get_args

from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_LONGEST = 4000  # digits; the interpreter refuses longer numbers, or takes very long
_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})
_WHOLE = re.compile(rf"([+-]?[0-9]{{1,{_LONGEST}}})(?:\.0+)?")


class MemberError(ValueError):
    """A value does not fit its member.

    ``what`` is the rest of a sentence that begins with the member's name, such as "is no number".
    ``fix`` says what the user should write instead.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Setting:
    """Base of the models of JSON properties; a model refuses members that it does not have."""

    __pydantic_config__: ClassVar[dict[str, object]] = {
        "extra": "forbid",
        "allow_inf_nan": False,
    }


def member(
    meaning: str,
    *,
    name: str = "",
    default: Any = MISSING,  # as dataclasses.field has it
    default_factory: Any = MISSING,
    is_default_shown: bool = True,
) -> Any:
    """Declare a member of a JSON property.

    Args:
        meaning: The member's meaning, in sentences, for the reference and ``dil explain``.
        name: The member's name in JSON, if it differs from the field's name.
        default: The value of a member that is left out; a member without a default is required.
        default_factory: Makes a new default for each model.
        is_default_shown: False if the reference should not show the default, for example because
            DIL uses another value when the member is left out.
    """
    metadata = {"description": meaning, "json_schema_extra": {"is_default_shown": is_default_shown}}
    return field(
        default=default,
        default_factory=default_factory,
        metadata={**metadata, "alias": name} if name else metadata,
    )


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Marks a type whose values the function ``read`` makes from JSON.

    ``read`` raises MemberError if a value does not fit.
    """

    read: Callable[[object], object]

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        del source, handler
        return core_schema.no_info_plain_validator_function(self.read)


@dataclass(frozen=True, slots=True)
class AnyCase:
    """Marks a Literal of lower-case words; JSON may have each word in any letter case."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        known = frozenset(get_args(source))

        def read(value: object) -> object:
            is_known = isinstance(value, str) and value.lower() in known
            return value.lower() if is_known and isinstance(value, str) else value

        return core_schema.no_info_before_validator_function(read, handler(source))


def _written(value: object) -> str:
    if isinstance(value, Decimal) and value.adjusted() > _LONGEST:
        return ""  # the digits of 1e999999999 would fill the memory
    return as_text(cast("JsonValue", value))


def _whole(value: object) -> int:
    match = _WHOLE.fullmatch(_written(value).strip())
    if match is None:
        raise MemberError("is no whole number", "Write a whole number.")
    return int(match[1])


def _number(value: object) -> float:
    try:
        number = float(_written(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise MemberError("is no number", "Write a number.")
    return number


def _flag(value: object) -> bool:
    word = _written(value).lower()
    if word not in _TRUE and word not in _FALSE:
        raise MemberError("is neither true nor false", "Write true or false.")
    return word in _TRUE


def _text_or_secret(value: object) -> str | Secret:
    if not isinstance(value, str | Secret):
        raise MemberError("is no text", 'Write a text: "...".')
    return value


# Numbers and booleans may be written as texts (rule F10).
Whole: TypeAlias = Annotated[int, ReadBy(_whole)]
Number: TypeAlias = Annotated[float, ReadBy(_number)]
Flag: TypeAlias = Annotated[bool, ReadBy(_flag)]
TextOrSecret: TypeAlias = Annotated[str | Secret, ReadBy(_text_or_secret)]
