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
    """``ms.authentication``: one header, or one parameter of the URL's query, with credentials.

    ``name`` and ``location`` are for the method ``apikey``. All fields below them are for
    ``oauth2``: the driver fetches the token of this method. ``refresh_token_file`` is an absolute
    path, empty for none. If ``expiry_margin_s`` is None, the lifetime of a token decides when it is
    renewed.
    """

    method: Annotated[
        Literal["basic", "bearer", "oauth", "custom", "apikey", "oauth2"], AnyCase()
    ] = member(
        "Scheme of the header: `Basic`, `Bearer` or `OAuth`; with `custom` the header has no "
        "scheme. `apikey` "
        "sends `token` under the name `name`. `oauth2` fetches a token and sends it as "
        "`Bearer`."
    )
    encryption: Annotated[Literal["base64", "none"], AnyCase()] = member(
        "Encoding of the credentials: base64, which `basic` needs, or none. Required for `basic`, "
        "`bearer`, `oauth` and `custom`; other methods have none.",
        default="none",
    )
    header: str = member("Name of the header.", default="Authorization")
    token: Secret | None = member(
        "The credentials, or a text with `{{name}}`. Left out: user name and password of "
        "`source.conn.username` and `source.conn.password`. Required for `apikey`.",
        default=None,
    )
    name: str = member(
        "For `apikey`: the name of the header, or of the parameter of the URL's query.", default=""
    )
    location: Annotated[Literal["header", "query"], AnyCase()] = member(
        "For `apikey`: the place of the key. A key in a query is left out of every message.",
        name="in",
        default="header",
    )
    grant: Annotated[Grant, AnyCase()] | None = member(
        "For `oauth2`, like all members below, and required: how a token is requested. `password` "
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
        "How the client identifies itself: in a header, or in the form.",
        name="clientAuthentication",
        default="basic",
    )
    scope: str = member("Scopes to request, with blanks between them.", default="")
    audience: str = member("The audience to request, if the server wants one.", default="")
    refresh_token: Secret | None = member(
        "For grant `refresh_token`: the first refresh token.", name="refreshToken", default=None
    )
    refresh_token_file: str = member(
        "For grant `refresh_token`: file of the current refresh token. It wins over `refreshToken` "
        "once it exists. A new token from the server is written there, encrypted if the job has a "
        "master password. A relative path starts at the folder of the job file.",
        name="refreshTokenFile",
        default="",
    )
    parameters: dict[str, TextOrSecret] = member(
        "Further members of the form that is sent.", default_factory=dict
    )
    expiry_margin_s: Annotated[Whole, Ge(0)] | None = member(
        "Time between the renewal of a token and its expiry. Left out: a tenth of its lifetime, at"
        " least 30 s; in any case at most half of its lifetime.",
        name="expiryMarginSeconds",
        default=None,
    )

    @property
    def is_fetched(self) -> bool:
        """Return whether the token comes from the coordinator, not from the job file."""
        return self.method == "oauth2"

    def without_grant(self) -> Authentication:
        """Return a copy without the secrets of the token request; tasks get only the token."""
        return replace(self, client_secret=None, refresh_token=None, parameters={})
