"""``ms.source.s3.parameters`` as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.model.members import AnyCase, Flag, Setting, Whole, member
from dil.model.secret import Secret

_Seconds = Annotated[Whole, Ge(1)] | None


@dataclass(frozen=True, slots=True)
class S3Settings(Setting):
    """How an S3 source is reached (behaviour.md B13.2, spec README 17).

    Times are in seconds but for ``max_idle_ms``; None leaves them to the client library.
    """

    region: str = member(
        "Region of the bucket; left out it is the one that the host of `ms.source.uri` names,"
        " else us-west-2.",
        default="",
    )
    bucket_name: str = member(
        "Name of the bucket, where it is not the first label of the host: a name with dots, a"
        " host that is the service itself.",
        default="",
    )
    endpoint: str = member(
        "Address of an S3-compatible service, such as `http://minio.example:9000`. Left out "
        "it is the rest of the host in `ms.source.uri`; for a host of AWS it is what "
        "`AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` names, if set.",
        default="",
    )
    path_style: Flag | None = member(
        "Whether the bucket is the first part of the path and not of the host; left out it is"
        " so outside of amazonaws.com.",
        default=None,
    )
    credentials: Annotated[Literal["", "default"], AnyCase()] = member(
        "`default` looks for credentials as AWS's own tools do: environment, shared files, "
        "the machine's role. Left out, `source.conn.username` and `source.conn.password` are "
        "the key and its secret, and without them nothing is signed.",
        default="",
    )
    session_token: Secret | None = member(
        "Token that goes with temporary keys; may be a secret.", default=None
    )
    verify_md5: Flag = member(
        "Whether the bytes of an object are compared with its eTag where that is an MD5; off "
        "for services whose eTag only looks like one.",
        default=True,
    )
    connect_timeout_s: _Seconds = member(
        "Seconds to wait for a connection; left out 60.",
        name="connection_timeout_seconds",
        default=None,
    )
    connect_timeout_old_s: _Seconds = member(
        "The same, by another name.", name="connection_timeout", default=None
    )
    read_timeout_s: _Seconds = member(
        "Seconds to wait for the next bytes of an answer; left out 60.",
        name="read_timeout_seconds",
        default=None,
    )
    write_timeout_s: _Seconds = member(
        "Seconds that sending may stand still; left out 60.",
        name="write_timeout_seconds",
        default=None,
    )
    max_idle_ms: _Seconds = member(
        "Milliseconds after which an unused connection is not used again; left out it is.",
        name="connection_max_idle_millis",
        default=None,
    )
