"""Sends one attempt's requests to S3: list, read or write (docs/object-stores.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from connectors.files.connector import RemoteFileSession
from connectors.files.names import Listed, filled, matching, pattern_of_wildcards
from connectors.files.once import UnitFile
from connectors.files.payload import PayloadFile
from connectors.s3.address import S3Address, S3Service, address_of, origin_of
from connectors.s3.client import JobSettings, make_client
from connectors.s3.failures import translated_errors
from connectors.s3.objects import S3Object, listed_objects
from connectors.s3.upload import S3Upload
from dil.model.json import JsonObject
from dil.sections.source import SourceSection
from dil.spi.connector import RequestValues, Response
from dil.text.origins import refuse_other_origin

log = logging.getLogger(__name__)


class S3Session(RemoteFileSession[S3Address]):
    """Lists the keys of a prefix, reads one object, or writes one object."""

    def __init__(
        self,
        settings: JobSettings,
        unit: UnitFile | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(settings.job, unit, sleep)
        self._settings = settings
        self._clients: dict[S3Service, Any] = {}
        self._used_at = 0.0

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def address(self, values: RequestValues) -> S3Address:
        """Return the service, the bucket and the prefix of a request."""
        template = self._job.source.uri
        uri = filled(template, values.variables)
        hosts = self._job.properties.section(SourceSection).hosts
        refuse_other_origin(template, uri, origin_of, hosts)
        return address_of(uri, self._settings.s3)

    def listed(self, address: S3Address) -> Iterator[Listed]:
        """Yield the objects whose keys begin with the prefix and match the pattern."""
        client, most = self._client(address.service), self._settings.list_keys
        found = listed_objects(client, address, most, leaves_markers=self._reads_one)
        if "*" in address.prefix:
            found = _warning_of_wildcards(found, address)
        return matching(found, self._job.properties)

    def opened(self, address: S3Address, path: str) -> Response:
        """Return the content of an object."""
        verifies = self._settings.s3.verify_md5
        file = S3Object(self._client(address.service), address.bucket, path, verifies_md5=verifies)
        given_type = file.content_type.partition(";")[0].strip().lower()
        return self.content(file, file.first, file.etag.strip('"'), {"ETag": file.etag}, given_type)

    def put(self, address: S3Address, payload: PayloadFile) -> tuple[JsonObject, str]:
        """Write an object below the prefix."""
        key = f"{address.prefix.rstrip('/')}/{payload.name}".lstrip("/")
        facts = S3Upload(self._client(address.service), address.bucket).put(payload, key)
        return facts, f"s3://{address.bucket}/{key}"

    def _client(self, service: S3Service) -> Any:  # botocore has no types
        """Return the client of a service; connections that were unused for too long are closed."""
        now, most = time.monotonic(), self._settings.s3.max_idle_ms
        if service not in self._clients:
            with translated_errors(service.endpoint or f"S3 in {service.region}"):
                self._clients[service] = make_client(self._settings, service)
        elif most is not None and (now - self._used_at) * 1000 > most:
            self._clients[service].close()
        self._used_at = now
        return self._clients[service]


def _warning_of_wildcards(found: Iterator[Listed], address: S3Address) -> Iterator[Listed]:
    """Yield the objects; log a warning if there are none, because ``*`` is a letter of keys."""
    first = next(found, None)
    if first is None:
        folder = address.prefix.partition("*")[0].rpartition("/")[0]
        log.warning(
            "%s: no key begins so. ms.source.uri takes no wildcards: set it to s3://%s/%s, and"
            " select keys by ms.source.files.pattern=%s, which the whole key has to match",
            address.shown,
            address.bucket,
            f"{folder}/" if folder else "",
            pattern_of_wildcards(address.prefix),
        )
        return
    yield first
    yield from found
