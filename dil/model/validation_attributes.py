"""``ms.validation.attributes`` as a frozen model (behaviour.md B11.6)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from dil.model.settings import Setting


class ValidationAttributes(Setting, frozen=True):
    """When in-flow validation passes; ``threshold`` is in percent of the expected count."""

    threshold: Annotated[float, Meta(ge=0)] = 0
    criteria: Literal["fail", "success"] = "fail"
    error_column: str | None = field(default=None, name="errorColumn")
