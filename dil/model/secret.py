"""Text that must never be printed."""

from __future__ import annotations

from dataclasses import dataclass, field

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
