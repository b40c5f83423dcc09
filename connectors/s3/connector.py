"""The S3 connector; cheap to import, the client library is loaded by ``open``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from connectors.address import AddressError
from connectors.files.checks import remote_file_problems
from connectors.files.once import unit_file
from connectors.files.payload import sending_problem
from connectors.s3.address import address_of
from connectors.s3.section import PARAMETERS, S3Section
from dil.errors import Problem
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.properties import Properties
from dil.sections.source import ONCE, PASSWORD, TLS, URI, USER, SourceSection
from dil.spi.connector import Connector, SessionContext
from dil.text.variables import placeholders

if TYPE_CHECKING:
    from connectors.s3.session import S3Session


class S3Connector(Connector):
    """Lists, reads and puts objects; one client for each attempt (docs/object-stores.md)."""

    unit_properties = frozenset({ONCE})
    reads_window = False

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the address, the credentials, and what is listed or sent."""
        return [
            *_uri_problems(properties),
            *_credential_problems(properties),
            *_trust_problems(properties),
            *remote_file_problems(properties),
        ]

    @classmethod
    def units(cls, job: Job, now_ms: int) -> Iterable[JsonObject]:
        """Yield the files as units, where each is read once."""
        del now_ms
        from connectors.s3.session import S3Session
        from connectors.s3.settings import JobSettings

        with S3Session(JobSettings.of(job)) as session:
            yield from session.units()

    @classmethod
    def changes(cls, job: Job) -> Problem | None:
        """Say that sending a file changes the source."""
        return sending_problem(job.properties)

    @classmethod
    def may_repeat_rows(cls, job: Job) -> bool:
        """Say that a put may be repeated: the same file under the same key."""
        del job
        return True

    def open(self, context: SessionContext) -> S3Session:
        """Return a session; nothing is sent before the first request."""
        from connectors.s3.session import S3Session
        from connectors.s3.settings import JobSettings

        unit = unit_file(context.job.properties, context.work_unit)
        return S3Session(JobSettings.of(context.job), unit)


def _uri_problems(properties: Properties) -> Iterator[Problem]:
    """Yield what is wrong with the address, as far as no variable hides it."""
    uri, settings = properties.section(SourceSection).uri, properties.section(S3Section).parameters
    host = uri.partition("://")[2].partition("/")[0]
    if uri.startswith("{{") or placeholders(host):
        return
    try:
        address_of(uri, settings)
    except AddressError as error:
        yield Problem(properties.origin(URI), URI, error.what, error.fix)


def _credential_problems(properties: Properties) -> Iterator[Problem]:
    source = properties.section(SourceSection)
    given = {USER: source.username, PASSWORD: source.password}
    names = [name for name, secret in given.items() if secret]
    if len(names) == 1:
        name = names[0]
        yield Problem(
            properties.origin(name),
            name,
            "is one half of the credentials",
            f"Give {USER} (the access key) and {PASSWORD} (its secret), or neither.",
        )
    if names and properties.section(S3Section).parameters.credentials == "default":
        yield Problem(
            properties.origin(PARAMETERS),
            PARAMETERS,
            f"asks for the default credentials, and {names[0]} gives others",
            "Keep one of them.",
        )


def _trust_problems(properties: Properties) -> Iterator[Problem]:
    trust_store = properties.section(SourceSection).tls.trust_store_path
    if trust_store.endswith((".p12", ".pfx", ".jks")):
        yield Problem(
            properties.origin(TLS),
            TLS,
            "has a trust store that is not PEM, which S3 clients do not read",
            "openssl pkcs12 -in FILE.p12 -nokeys -out FILE.pem",
        )
