"""Text that must never be printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

MASK = "***"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret text that prints as ``***``; ``reveal`` is the only way to its value."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the secret itself, for the one call that needs it."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __bool__(self) -> bool:
        return bool(self._value)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        # A model accepts only a Secret that was made before, never a plain text.
        from pydantic_core import core_schema

        del source, handler
        return core_schema.is_instance_schema(cls)


@dataclass(frozen=True, slots=True)
class SecretUrl(Secret):
    """The address of a service, which errors may name: only the password in it is secret."""

    __repr__ = Secret.__repr__


def revealed(text: str | Secret | None) -> str:
    """Return a plain text, or the text of a secret; empty for None."""
    return text.reveal() if isinstance(text, Secret) else text or ""


class OpenedText(str):
    """The plain text of an ENC(...) value in data, to send; ``written`` is the text to keep."""

    __slots__ = ("written",)

    written: str

    @classmethod
    def of(cls, plain: str, written: str) -> Self:
        """Return the plain text together with its written form."""
        text = cls(plain)
        text.written = written
        return text

    def __reduce__(self) -> tuple[Callable[[str, str], Self], tuple[str, str]]:
        return type(self).of, (str(self), self.written)
