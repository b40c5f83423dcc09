"""The S3 connector. Importing it is quick: ``open`` loads the client library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from connectors.address import AddressError
from connectors.files.connector import FileConnector, remote_file_problems
from connectors.files.once import UnitFile
from connectors.s3.address import address_of
from connectors.s3.section import PARAMETERS, S3Section
from connectors.s3.settings import JobSettings
from dil.errors import Problem
from dil.model.job import Job
from dil.model.properties import Properties
from dil.sections.source import PASSWORD, TLS, URI, USER, SourceSection
from dil.text.variables import placeholders

if TYPE_CHECKING:
    from connectors.s3.session import S3Session


class S3Connector(FileConnector):
    """Lists, reads and writes objects, with one client for each attempt (docs/object-stores.md)."""

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the address, the credentials, the listing, and the files to send."""
        found: list[Problem] = []
        source = properties.section(SourceSection)
        settings = properties.section(S3Section).parameters
        # The address is checked as far as its variables allow it.
        host = source.uri.partition("://")[2].partition("/")[0]
        if not source.uri.startswith("{{") and not placeholders(host):
            try:
                address_of(source.uri, settings)
            except AddressError as error:
                found.append(Problem(properties.origin(URI), URI, error.what, error.fix))

        given = {USER: source.username, PASSWORD: source.password}
        names = [name for name, secret in given.items() if secret]
        if len(names) == 1:
            found.append(
                Problem(
                    properties.origin(names[0]),
                    names[0],
                    "is one half of the credentials",
                    f"Give {USER} (the access key) and {PASSWORD} (its secret), or neither.",
                )
            )
        if names and settings.credentials == "default":
            found.append(
                Problem(
                    properties.origin(PARAMETERS),
                    PARAMETERS,
                    f"asks for the default credentials, and {names[0]} gives others",
                    "Keep one of them.",
                )
            )
        if source.tls.trust_store_path.endswith((".p12", ".pfx", ".jks")):
            found.append(
                Problem(
                    properties.origin(TLS),
                    TLS,
                    "has a trust store that is not PEM, which S3 clients do not read",
                    "Convert the store: openssl pkcs12 -in FILE.p12 -nokeys -out FILE.pem",
                )
            )
        return [*found, *remote_file_problems(properties)]

    @classmethod
    def session(cls, job: Job, file: UnitFile | None) -> S3Session:
        """Return a session; it sends nothing before the first request."""
        from connectors.s3.session import S3Session

        return S3Session(JobSettings.of(job), file)
