"""The S3 connector. Importing it is quick: ``open`` loads the client library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connectors.address import AddressError
from connectors.files.connector import FileConnector, FileSession, remote_file_problems
from connectors.files.once import UnitFile
from connectors.s3.address import address_of
from connectors.s3.section import PARAMETERS, S3Section
from dil.errors import Problem
from dil.model.job import Job
from dil.model.properties import Properties
from dil.sections.source import PASSWORD, TLS, URI, USER, SourceSection
from dil.text.variables import placeholders


class S3Connector(FileConnector):
    """Lists, reads and writes objects, with one client for each attempt (docs/object-stores.md)."""

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the address, the credentials, the listing, and the files to send."""
        return [
            *_uri_problems(properties),
            *_credential_problems(properties),
            *_trust_problems(properties),
            *remote_file_problems(properties),
        ]

    @classmethod
    def session(cls, job: Job, file: UnitFile | None) -> FileSession:
        """Return a session; it sends nothing before the first request."""
        from connectors.files.remote import RemoteFileSession
        from connectors.s3.client import JobSettings
        from connectors.s3.session import S3Files

        return RemoteFileSession(job, S3Files(JobSettings.of(job)), file)


def _uri_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the problems of the address, as far as its variables allow a check."""
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
            "Convert the store: openssl pkcs12 -in FILE.p12 -nokeys -out FILE.pem",
        )
