"""``ms.authentication``: how a job shows who it is (behaviour.md B7.4)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field
from msgspec.structs import replace

from dil.model.secret import Secret
from dil.model.settings import Setting

Grant = Literal["client_credentials", "refresh_token", "password"]


class Authentication(Setting, frozen=True):
    """``ms.authentication``: one header, or one member of the query, with credentials (B7.4).

    ``name`` and ``location`` are for method apikey, everything below them for oauth2, whose token
    is fetched on the driver. ``refresh_token_file`` is absolute, empty for none.
    ``expiry_margin_s`` None leaves it to the token's lifetime when it is renewed.
    """

    method: Literal["basic", "bearer", "oauth", "custom", "apikey", "oauth2"]
    encryption: Literal["base64", "none"] = "none"
    header: str = "Authorization"
    token: Secret | None = None
    name: str = ""
    location: Literal["header", "query"] = field(default="header", name="in")
    grant: Grant | None = None
    token_uri: str = field(default="", name="tokenUri")
    client_id: str | Secret = field(default="", name="clientId")
    client_secret: Secret | None = field(default=None, name="clientSecret")
    client_authentication: Literal["basic", "body"] = field(
        default="basic", name="clientAuthentication"
    )
    scope: str = ""
    audience: str = ""
    refresh_token: Secret | None = field(default=None, name="refreshToken")
    refresh_token_file: str = field(default="", name="refreshTokenFile")
    parameters: dict[str, str | Secret] = field(default_factory=dict)
    expiry_margin_s: Annotated[int, Meta(ge=0)] | None = field(
        default=None, name="expiryMarginSeconds"
    )

    @property
    def is_fetched(self) -> bool:
        """Tell whether the token comes from the coordinator, not from the job file."""
        return self.method == "oauth2"

    def without_grant(self) -> Authentication:
        """Return the same without what is sent for a token: tasks are given the token itself."""
        return replace(self, client_secret=None, refresh_token=None, parameters={})
