"""The properties of S3, and the reader of their JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.model.json import JsonValue
from dil.model.members import AnyCase, Flag, Setting, Whole, member
from dil.model.secret import Secret
from dil.model.section import Int, Section, ValueType, Written, prop
from dil.sections.reading import ReadContext, ShapeError, as_object, build

PARAMETERS = "ms.source.s3.parameters"
# A region is part of a host name; a private service may name it freely.
_REGION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; older buckets may
# have capital letters and underscores.
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}")
_ENDPOINT = re.compile(r"https?://[^/?#@\s]+/?", re.IGNORECASE)

_Seconds = Annotated[Whole, Ge(1)] | None


@dataclass(frozen=True, slots=True)
class S3Settings(Setting):
    """How to reach an S3 source (docs/object-stores.md).

    Times are in seconds, except ``max_idle_ms``; None means the client library's default.
    """

    region: str = member(
        "Region of the bucket; left out, the region in the host of `ms.source.uri`, else"
        " us-west-2.",
        default="",
    )
    bucket_name: str = member(
        "Name of the bucket, if it is not the first label of the host: a name with dots, or a"
        " host that is the service itself.",
        default="",
    )
    endpoint: str = member(
        "Address of an S3-compatible service, such as `http://minio.example:9000`. Left out, the"
        " rest of the host in `ms.source.uri`; for a host of AWS, the address in"
        " `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, if one is set.",
        default="",
    )
    path_style: Flag | None = member(
        "Whether the bucket is the first part of the path and not of the host; left out, this is"
        " true outside of amazonaws.com.",
        default=None,
    )
    credentials: Annotated[Literal["", "default"], AnyCase()] = member(
        "`default` looks for credentials in the same way as AWS's own tools: environment, shared"
        " files, the machine's role. Left out, `source.conn.username` and `source.conn.password`"
        " are the access key and its secret; without them requests are not signed.",
        default="",
    )
    session_token: Secret | None = member(
        "Token that belongs to temporary keys; may be a secret.", default=None
    )
    verify_md5: Flag = member(
        "Whether the bytes of an object are compared with its eTag if that is an MD5; switch it"
        " off for services whose eTag only looks like an MD5.",
        default=True,
    )
    connect_timeout_s: _Seconds = member(
        "Seconds to wait for a connection; left out, 60.",
        name="connection_timeout_seconds",
        default=None,
    )
    connect_timeout_old_s: _Seconds = member(
        "Another name of connection_timeout_seconds.", name="connection_timeout", default=None
    )
    read_timeout_s: _Seconds = member(
        "Seconds to wait for the next bytes of an answer; left out, 60.",
        name="read_timeout_seconds",
        default=None,
    )
    write_timeout_s: _Seconds = member(
        "Seconds for which sending may make no progress; left out, 60.",
        name="write_timeout_seconds",
        default=None,
    )
    max_idle_ms: _Seconds = member(
        "Milliseconds after which an unused connection is not used again; left out, there is no"
        " such limit.",
        name="connection_max_idle_millis",
        default=None,
    )


def _s3(value: JsonValue, around: ReadContext) -> S3Settings:
    members: dict[str, object] = dict(as_object(value))
    token = members.get("session_token")
    if isinstance(token, str):
        members["session_token"] = around.secret(token, "session_token") if token else None
    settings = build(S3Settings, members)
    findings = [*_findings(settings)]
    if findings:
        raise ShapeError(*findings)
    return settings


def _findings(settings: S3Settings) -> Iterator[tuple[str, str]]:
    if settings.region and not _REGION.fullmatch(settings.region):
        yield (
            f'region is "{settings.region}", which names no region',
            "For example us-east-1.",
        )
    if settings.bucket_name and not _BUCKET.fullmatch(settings.bucket_name):
        fix = "Use letters, digits, dots, dashes and underscores only."
        yield f'bucket_name is "{settings.bucket_name}", which names no bucket', fix
    if settings.endpoint and not _ENDPOINT.fullmatch(settings.endpoint):
        fix = "Write scheme, host and port: http://minio.example:9000."
        yield "endpoint is no address of a service", fix
    old, new = settings.connect_timeout_old_s, settings.connect_timeout_s
    if old is not None and new is not None and old != new:
        fix = "Both mean the same: keep connection_timeout_seconds."
        yield f"connection_timeout is {old} and connection_timeout_seconds is {new}", fix


@dataclass(frozen=True, slots=True)
class S3Section(Section):
    """The properties of S3 in a job."""

    parameters: Annotated[S3Settings, Written(ValueType.JSON_OBJECT, read=_s3)] = prop(
        PARAMETERS,
        "Region, bucket, endpoint, kind of credentials and time-outs of an S3 source.",
        default_factory=S3Settings,
        example='{"region": "eu-central-1", "read_timeout_seconds": 120}',
        hidden_members="`session_token`",
    )
    list_keys: Annotated[Int, Ge(1)] = prop(
        "ms.s3.list.max.keys",
        "Keys requested in each list call of an S3 source; DIL reads all pages of the list.",
        default=1000,
        identity=False,
    )
