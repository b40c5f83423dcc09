"""Reads ``ms.source.uri`` of an S3 source: bucket, service, prefix (docs/object-stores.md)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from connectors.address import AddressError
from connectors.s3.section import S3Settings
from dil.text.origins import NetworkOrigin

DEFAULT_REGION = "us-west-2"
_URI = re.compile(
    r"(?P<scheme>s3|https?)://(?P<host>[^/]*)/?(?P<prefix>.*)", re.IGNORECASE | re.DOTALL
)
# AWS hosts, in both forms that the client library derives from the region.
_AWS = re.compile(
    r"s3(?:[.-](?P<region>[a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com(?P<china>\.cn)?",
    re.IGNORECASE,
)
_AWS_DOMAIN = re.compile(r"(?:.*\.)?amazonaws\.com(?:\.cn)?(?::\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class S3Service:
    """One S3 service; an empty ``endpoint`` means AWS's own service in the region."""

    endpoint: str
    region: str
    path_style: bool


@dataclass(frozen=True, slots=True)
class S3Address:
    """A bucket of a service, and the prefix of the keys to read."""

    service: S3Service
    bucket: str
    prefix: str

    @property
    def path(self) -> str:
        """Return the prefix, which is also the key of an object that has exactly this name."""
        return self.prefix

    @property
    def shown(self) -> str:
        """Return the address for messages."""
        return f"s3://{self.bucket}/{self.prefix}"


def address_of(uri: str, settings: S3Settings) -> S3Address:
    """Return the address in a text; the path is the prefix of keys, and is not decoded.

    Raises:
        AddressError: the text is no S3 address.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise AddressError(
            f'is "{uri}", which is no S3 address',
            "Write https://<bucket>.<host>/<prefix> or s3://<bucket>/<prefix>.",
        )
    host = match["host"]
    if "@" in host:
        raise AddressError(
            "has a user in the address",
            "Write the user into source.conn.username and the password into source.conn.password.",
        )
    if settings.bucket_name:
        bucket = settings.bucket_name
        # The bucket may be the first part of the host, or the whole host.
        rest = "" if host == bucket else host.removeprefix(f"{bucket}.")
    elif _is_number(host):
        raise AddressError(
            f"has the host {host}, of which no part is a bucket",
            'Name the bucket: ms.source.s3.parameters={"bucket_name":"..."}.',
        )
    else:
        bucket, _, rest = host.partition(".")
        if "." not in host:
            bucket = host.partition(":")[0]
    if not bucket:
        raise AddressError("names no bucket", "Write s3://<bucket>/<prefix>.")
    return S3Address(_service(match["scheme"].lower(), rest, settings), bucket, match["prefix"])


def origin_of(uri: str) -> NetworkOrigin:
    """Return the scheme and the host of an address; the host includes the bucket.

    Raises:
        AddressError: the text is no S3 address.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise AddressError("is no S3 address", "Write s3://<bucket>/<prefix>.")
    return NetworkOrigin.at(match["scheme"].lower(), match["host"])


def is_of_aws(host: str) -> bool:
    """Return whether a host, with or without a port, belongs to AWS."""
    return _AWS_DOMAIN.fullmatch(host) is not None


def _is_number(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _service(scheme: str, host: str, settings: S3Settings) -> S3Service:
    """Return the service; the ``endpoint`` setting overrides the URI's host."""
    endpoint = settings.endpoint.rstrip("/")
    region, aws = settings.region, _AWS.fullmatch(host)
    if not endpoint and host and aws is None:
        endpoint = f"{'http' if scheme == 'http' else 'https'}://{host}"
    if not region and aws is not None and not endpoint:
        region = (aws["region"] or ("cn-north-1" if aws["china"] else "")).lower()
    is_foreign = bool(endpoint) and not is_of_aws(endpoint.partition("://")[2])
    path_style = is_foreign if settings.path_style is None else settings.path_style
    return S3Service(endpoint, region or DEFAULT_REGION, path_style)
