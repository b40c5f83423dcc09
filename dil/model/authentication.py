"""``ms.authentication``: how a job shows who it is (behaviour.md B7.4)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dil.model.secret import Secret
from dil.model.settings import Setting, lower

Grant = Literal["client_credentials", "refresh_token", "password"]


class Authentication(Setting):
    """``ms.authentication``: one header, or one member of the query, with credentials (B7.4).

    ``name`` and ``location`` are for method apikey, everything below them for oauth2, whose token
    is fetched on the driver. ``refresh_token_file`` is absolute, empty for none.
    ``expiry_margin_s`` None leaves it to the token's lifetime when it is renewed.
    """

    method: Annotated[
        Literal["basic", "bearer", "oauth", "custom", "apikey", "oauth2"], BeforeValidator(lower)
    ]
    encryption: Annotated[Literal["base64", "none"], BeforeValidator(lower)] = "none"
    header: str = "Authorization"
    token: Secret | None = None
    name: str = ""
    location: Annotated[Literal["header", "query"], BeforeValidator(lower)] = Field(
        default="header", alias="in"
    )
    grant: Annotated[Grant | None, BeforeValidator(lower)] = None
    token_uri: str = Field(default="", alias="tokenUri")
    client_id: str | Secret = Field(default="", alias="clientId")
    client_secret: Secret | None = Field(default=None, alias="clientSecret")
    client_authentication: Annotated[Literal["basic", "body"], BeforeValidator(lower)] = Field(
        default="basic", alias="clientAuthentication"
    )
    scope: str = ""
    audience: str = ""
    refresh_token: Secret | None = Field(default=None, alias="refreshToken")
    refresh_token_file: str = Field(default="", alias="refreshTokenFile")
    parameters: dict[str, str | Secret] = Field(default_factory=dict)
    expiry_margin_s: int | None = Field(default=None, ge=0, alias="expiryMarginSeconds")

    @property
    def is_fetched(self) -> bool:
        """Tell whether the token comes from the coordinator, not from the job file."""
        return self.method == "oauth2"

    def without_grant(self) -> Authentication:
        """Return the same without what is sent for a token: tasks are given the token itself."""
        return self.model_copy(
            update={"client_secret": None, "refresh_token": None, "parameters": {}}
        )
