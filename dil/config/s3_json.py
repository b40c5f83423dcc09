"""``ms.source.s3.parameters`` as a frozen model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from dil.model.json import JsonValue
from dil.model.s3_settings import S3Settings
from dil.spi.reading import ShapeError, Surroundings, as_object, build

_NAME = "ms.source.s3.parameters"
# A region is part of a host name; a service of one's own may call it as it likes.
_REGION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; older buckets may
# have capital letters and underscores.
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}")
_ENDPOINT = re.compile(r"https?://[^/?#@\s]+/?", re.IGNORECASE)


def _s3(value: JsonValue, around: Surroundings) -> S3Settings:
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
        yield f'region is "{settings.region}", which names no region', "For example us-east-1."
    if settings.bucket_name and not _BUCKET.fullmatch(settings.bucket_name):
        fix = "Letters, digits, dots, dashes and underscores."
        yield f'bucket_name is "{settings.bucket_name}", which names no bucket', fix
    if settings.endpoint and not _ENDPOINT.fullmatch(settings.endpoint):
        fix = "Write scheme, host and port: http://minio.example:9000."
        yield "endpoint is no address of a service", fix
    old, new = settings.connect_timeout_old_s, settings.connect_timeout_s
    if old is not None and new is not None and old != new:
        fix = "They mean the same: keep connection_timeout_seconds."
        yield f"connection_timeout is {old} and connection_timeout_seconds is {new}", fix


READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {_NAME: _s3}
EMPTY: Mapping[str, Callable[[], object]] = {_NAME: S3Settings}
