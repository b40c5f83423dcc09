"""``ms.authentication``: the credentials of a job's requests (docs/http.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Ge

from dil.model.members import AnyCase, Setting, TextOrSecret, Whole, member
from dil.model.secret import Secret

Grant = Literal["client_credentials", "refresh_token", "password"]


@dataclass(frozen=True, slots=True)
class Authentication(Setting):
    """``ms.authentication``: one header, or one member of the query, with credentials.

    ``name`` and ``location`` are for method apikey, everything below them for oauth2, whose token
    is fetched on the driver. ``refresh_token_file`` is absolute, empty for none.
    ``expiry_margin_s`` None leaves it to the token's lifetime when it is renewed.
    """

    method: Annotated[
        Literal["basic", "bearer", "oauth", "custom", "apikey", "oauth2"], AnyCase()
    ] = member(
        "Scheme of the header: `Basic`, `Bearer`, `OAuth`, or with `custom` none. `apikey` "
        "sends `token` under the name `name`. `oauth2` fetches a token and sends it as "
        "`Bearer`."
    )
    encryption: Annotated[Literal["base64", "none"], AnyCase()] = member(
        "What is done with the credentials: base64, as `basic` needs it, or nothing. Required"
        " for `basic`, `bearer`, `oauth` and `custom`, none for the others.",
        default="none",
    )
    header: str = member("Name of the header.", default="Authorization")
    token: Secret | None = member(
        "The credentials, or a text with `{{name}}`. Left out: user name and password of "
        "`source.conn.username` and `source.conn.password`. Required for `apikey`.",
        default=None,
    )
    name: str = member(
        "Of `apikey`: the name of the header, or of the member of the query.", default=""
    )
    location: Annotated[Literal["header", "query"], AnyCase()] = member(
        "Of `apikey`: where it is sent. In a query it is left out of every message.",
        name="in",
        default="header",
    )
    grant: Annotated[Grant, AnyCase()] | None = member(
        "Of `oauth2`, as are all below, and required: how a token is asked for. `password` "
        "sends `source.conn.username` and `source.conn.password`.",
        default=None,
    )
    token_uri: str = member(
        "Address that gives tokens; `https://`, plain `http://` on this machine only.",
        name="tokenUri",
        default="",
    )
    client_id: TextOrSecret = member(
        "Name of the client; may be a secret.", name="clientId", default=""
    )
    client_secret: Secret | None = member(
        "Secret of the client; required by `client_credentials`.", name="clientSecret", default=None
    )
    client_authentication: Annotated[Literal["basic", "body"], AnyCase()] = member(
        "How the client shows who it is: in a header, or in the form.",
        name="clientAuthentication",
        default="basic",
    )
    scope: str = member("Scopes to ask for, with blanks between them.", default="")
    audience: str = member("The audience to ask for, where the server wants one.", default="")
    refresh_token: Secret | None = member(
        "Of grant `refresh_token`: the token to begin with.", name="refreshToken", default=None
    )
    refresh_token_file: str = member(
        "Of grant `refresh_token`: file of the current refresh token. It wins over "
        "`refreshToken` once it exists; a new token that the server gives is written there, "
        "encrypted where the job has a master password. Relative, it starts at the folder of "
        "the job file.",
        name="refreshTokenFile",
        default="",
    )
    parameters: dict[str, TextOrSecret] = member(
        "More members of the form that is sent.", default_factory=dict
    )
    expiry_margin_s: Annotated[Whole, Ge(0)] | None = member(
        "How long before its expiry a token is renewed. Left out: a tenth of its lifetime, at"
        " least 30 s; in any case at most half of its lifetime.",
        name="expiryMarginSeconds",
        default=None,
    )

    @property
    def is_fetched(self) -> bool:
        """Return whether the token comes from the coordinator, not from the job file."""
        return self.method == "oauth2"

    def without_grant(self) -> Authentication:
        """Return a copy without the secrets of the token request: tasks get the token itself."""
        return replace(self, client_secret=None, refresh_token=None, parameters={})
