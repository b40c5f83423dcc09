"""Sends one attempt's requests to S3: list, read or write (docs/object-stores.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO, cast

from connectors.address import AddressError
from connectors.files.body import FileBody, closing_on_error
from connectors.files.connector import FileSession, file_view
from connectors.files.listing import listing_response
from connectors.files.names import (
    Listed,
    chosen,
    filled,
    matching,
    media_type,
    pattern_of_wildcards,
    stable_files,
)
from connectors.files.once import UnitFile, file_unit
from connectors.files.payload import payload_file, sent_response
from connectors.s3.address import S3Address, S3Service, address_of, origin_of
from connectors.s3.client import JobSettings, make_client
from connectors.s3.failures import translated_errors
from connectors.s3.objects import S3Object, listed_objects
from connectors.s3.upload import S3Upload
from dil.errors import ConfigError
from dil.model.json import JsonObject
from dil.sections.source import SourceSection
from dil.spi.connector import RequestValues, Response
from dil.spi.request_view import RequestView
from dil.text.origins import refuse_other_origin

log = logging.getLogger(__name__)


class S3Session(FileSession):
    """Lists the keys of a prefix, reads one object, or writes one object.

    ``seconds_waited`` is the time spent waiting before requests for the rest of a broken body.
    """

    def __init__(
        self,
        settings: JobSettings,
        unit: UnitFile | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._unit = unit
        self._sleep = sleep
        self._monotonic = monotonic
        self._now_ms = now_ms
        self._clients: dict[S3Service, Any] = {}
        self._used_at = 0.0
        self.seconds_waited = 0.0

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def describe(self, values: RequestValues) -> RequestView:
        """Return a view of the listing, the object to read, or the target of the file to send."""
        shown = self._address(values).shown
        return file_view(shown, self._unit, self._settings.job.properties)

    def fetch(self, values: RequestValues) -> Response:
        """Send the payload file if there is one; else list the keys, or open the requested object.

        Raises:
            TransientSourceError: no connection, time-outs, a busy service.
            AuthenticationError: the key is unknown, or may not do this.
            SourceContractError: the object vanished or changed.
            SourceError: the object does not exist, or the service refuses the request.
            ConfigError: the address needs a value that this request lacks.
        """
        address = self._address(values)
        job = self._settings.job
        payload = payload_file(job.properties, values)
        if payload is not None:
            key = f"{address.prefix.rstrip('/')}/{payload.name}".lstrip("/")
            facts = S3Upload(self._client(address.service), address.bucket).put(payload, key)
            return sent_response(facts, f"s3://{address.bucket}/{key}")
        if job.extraction.pagination.is_on and job.extraction.session is None and values.page:
            return Response(None, location=address.shown)  # An S3 source has no pages (rule G30).
        if self._unit is not None:
            return self._object(address, self._unit.path)
        listed = self._listed(address)
        if not self._settings.reads_one:
            found = stable_files(listed, job.properties, address.shown, self._now_ms())
            return listing_response((each.path for each in found), job, address.shown)
        one = chosen(listed, address.prefix, job.properties, address.shown, self._now_ms())
        return self._object(address, one.path)

    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each matching object that has settled, in the order of the list.

        Raises:
            SourceError: the service refuses the listing, or cannot be reached.
        """
        address, properties = self._address(RequestValues({}, {})), self._settings.job.properties
        for each in stable_files(self._listed(address), properties, address.shown, self._now_ms()):
            yield file_unit(each.path, each.version, properties)

    def _listed(self, address: S3Address) -> Iterator[Listed]:
        settings, client = self._settings, self._client(address.service)
        found = listed_objects(
            client, address, settings.list_keys, leaves_markers=settings.reads_one
        )
        if "*" in address.prefix:
            found = _warning_of_wildcards(found, address)
        return matching(found, settings.job.properties)

    def _object(self, address: S3Address, key: str) -> Response:
        verifies = self._settings.s3.verify_md5
        opened = S3Object(self._client(address.service), address.bucket, key, verifies_md5=verifies)
        if self._unit is not None:
            with closing_on_error(opened.first):
                self._unit.check(opened.etag.strip('"'))
        body = FileBody(opened, partial(self.wait_to_retry, sleep=self._sleep), opened.first)
        kind = opened.content_type.partition(";")[0].strip().lower()
        return Response(
            cast("BinaryIO", body),
            content_type=media_type(key) or kind,
            headers={"Content-Length": str(opened.size), "ETag": opened.etag},
            location=opened.shown,
            uri=opened.shown,
        )

    def _address(self, values: RequestValues) -> S3Address:
        job = self._settings.job
        uri = filled(job.source.uri, values.variables)
        hosts = job.properties.section(SourceSection).hosts
        try:
            refuse_other_origin(job.source.uri, uri, origin_of, hosts)
            return address_of(uri, self._settings.s3)
        except AddressError as error:
            raise ConfigError.single("ms.source.uri", error.what, error.fix) from None

    def _client(self, service: S3Service) -> Any:  # botocore has no types
        """Return the client of a service; connections that were unused for too long are closed."""
        now, most = self._monotonic(), self._settings.s3.max_idle_ms
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
