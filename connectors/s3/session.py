"""Sends one attempt's requests to S3: list, read or write (docs/object-stores.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from connectors.files.names import (
    Listed,
    filled,
    matching,
    pattern_of_wildcards,
    reads_one_file,
)
from connectors.files.payload import PayloadFile
from connectors.files.remote import FileServer, OpenedFile
from connectors.s3.address import S3Address, S3Service, address_of, origin_of
from connectors.s3.client import JobSettings, make_client
from connectors.s3.failures import translated_errors
from connectors.s3.objects import S3Object, listed_objects
from connectors.s3.upload import S3Upload
from dil.model.json import JsonObject
from dil.sections.source import SourceSection
from dil.spi.connector import RequestValues
from dil.text.origins import refuse_other_origin

log = logging.getLogger(__name__)


class S3Files(FileServer[S3Address]):
    """Lists the keys of a prefix, reads one object, or writes one object."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._clients: dict[S3Service, Any] = {}
        self._used_at = 0.0

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def address(self, values: RequestValues) -> S3Address:
        """Return the service, the bucket and the prefix of a request."""
        job = self._settings.job
        uri = filled(job.source.uri, values.variables)
        hosts = job.properties.section(SourceSection).hosts
        refuse_other_origin(job.source.uri, uri, origin_of, hosts)
        return address_of(uri, self._settings.s3)

    def listed(self, address: S3Address, count_retry: Callable[[], None]) -> Iterator[Listed]:
        """Return the objects whose keys begin with the prefix and match the pattern."""
        del count_retry  # The client itself repeats requests.
        properties = self._settings.job.properties
        client, most = self._client(address.service), self._settings.list_keys
        found = listed_objects(client, address, most, leaves_markers=reads_one_file(properties))
        if "*" in address.prefix:
            found = _warning_of_wildcards(found, address)
        return matching(found, properties)

    def opened(self, address: S3Address, path: str) -> OpenedFile:
        """Return an object, open at its beginning."""
        verifies = self._settings.s3.verify_md5
        file = S3Object(self._client(address.service), address.bucket, path, verifies_md5=verifies)
        given_type = file.content_type.partition(";")[0].strip().lower()
        version, headers = file.etag.strip('"'), {"ETag": file.etag}
        return OpenedFile(file, file.first, version, headers, given_type)

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
