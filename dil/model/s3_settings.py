"""``ms.source.s3.parameters`` as a frozen value."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from dil.model.secret import Secret
from dil.model.settings import Setting

_Seconds = Annotated[int, Meta(ge=1)] | None


class S3Settings(Setting, frozen=True):
    """How an S3 source is reached (behaviour.md B13.2, spec README 17).

    Times are in seconds but for ``max_idle_ms``; None leaves them to the client library.
    """

    region: str = ""
    bucket_name: str = ""
    endpoint: str = ""
    path_style: bool | None = None
    credentials: Literal["", "default"] = ""
    session_token: Secret | None = None
    verify_md5: bool = True
    connect_timeout_s: _Seconds = field(default=None, name="connection_timeout_seconds")
    connect_timeout_old_s: _Seconds = field(default=None, name="connection_timeout")
    read_timeout_s: _Seconds = field(default=None, name="read_timeout_seconds")
    write_timeout_s: _Seconds = field(default=None, name="write_timeout_seconds")
    max_idle_ms: _Seconds = field(default=None, name="connection_max_idle_millis")
