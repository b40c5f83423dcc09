"""``ms.validation.attributes`` as a frozen model (behaviour.md B11.6)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dil.model.settings import Setting, lower


class ValidationAttributes(Setting):
    """When in-flow validation passes; ``threshold`` is in percent of the expected count."""

    threshold: float = Field(default=0, ge=0)
    criteria: Annotated[Literal["fail", "success"], BeforeValidator(lower)] = "fail"
    error_column: str | None = Field(default=None, alias="errorColumn")
