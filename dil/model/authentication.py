"""``ms.authentication``: how a job shows who it is (behaviour.md B7.4)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from dil.model.secret import Secret
from dil.model.settings import Setting, lower


class Authentication(Setting):
    """``ms.authentication``: one header with credentials (B7.4)."""

    method: Annotated[Literal["basic", "bearer", "oauth", "custom"], BeforeValidator(lower)]
    encryption: Annotated[Literal["base64", "none"], BeforeValidator(lower)]
    header: str = "Authorization"
    token: Secret | None = None
