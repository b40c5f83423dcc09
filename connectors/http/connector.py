"""The HTTP connector. Importing it is quick: ``open`` loads the client library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from connectors.http.body_template import body_problems
from connectors.http.section import AUTHENTICATION, HttpSection
from connectors.http.settings import HttpSettings, repeats_rows
from dil.errors import Problem
from dil.model.job import Job
from dil.model.properties import Properties
from dil.sections.http import IDEMPOTENCY_HEADER, METHOD, SendingSection
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.sections.source import PASSWORD, URI, USER, SourceSection
from dil.spi.connector import Connector, SessionContext
from dil.spi.coordination import CredentialSource

if TYPE_CHECKING:
    from connectors.http.session import HttpSession

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110 section 5.6.2
_WRITTEN = frozenset({"basic", "bearer", "oauth", "custom"})


class HttpConnector(Connector):
    """Reads and sends rows over HTTP; each thread of a task has a pool of connections."""

    reads_window = False
    overlaps = True

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the URI, the authentication, names of headers, and rows to send."""
        return [
            *_uri_problems(properties),
            *_authentication_problems(properties),
            *_header_problems(properties),
            *_sending_problems(properties),
            *body_problems(properties),
        ]

    @classmethod
    def credentials(cls, job: Job) -> CredentialSource | None:
        """Return the fetcher of tokens if ``ms.authentication`` has the method oauth2."""
        authentication = job.properties.section(HttpSection).authentication
        if authentication is None or not authentication.is_fetched:
            return None
        from connectors.http.oauth import OAuthSource

        return OAuthSource.of(job)

    @classmethod
    def for_tasks(cls, job: Job) -> Job:
        """Return the job without the secrets of a grant, because only the driver fetches tokens."""
        authentication = job.properties.section(HttpSection).authentication
        if authentication is None or not authentication.is_fetched:
            return job
        kept = job.properties.having(AUTHENTICATION, authentication.without_grant())
        return replace(job, properties=kept)

    @classmethod
    def may_repeat_rows(cls, job: Job) -> bool:
        """Return whether the method, a key for each row, or the job allows sending rows again."""
        return repeats_rows(HttpSettings.of(job))

    @classmethod
    def changes(cls, job: Job) -> Problem | None:
        """Return a problem if HTTP does not define the job's method as safe."""
        sending = job.properties.section(SendingSection)
        if sending.is_safe:
            return None
        what = f"is {sending.method}, which may change something at the source"
        return Problem(job.properties.origin(METHOD), METHOD, what)

    def open(self, context: SessionContext) -> HttpSession:
        """Return a session; it sends nothing before the first request."""
        from connectors.http.session import HttpSession
        from connectors.http.settings import SessionEnvironment

        environment = SessionEnvironment(
            context.coordinator, context.renewed, audit=context.audit, shared=context.shared
        )
        return HttpSession(HttpSettings.of(context.job), environment)


def _uri_problems(properties: Properties) -> Iterator[Problem]:
    uri = properties.section(SourceSection).uri
    parts = urlsplit(uri)
    if uri.startswith("{{") or (parts.scheme.lower() in {"http", "https"} and parts.netloc):
        return
    yield Problem(
        properties.origin(URI),
        URI,
        "is no HTTP address",
        "Begin the address with http:// or https:// and name a host.",
    )


def _authentication_problems(properties: Properties) -> Iterator[Problem]:
    """Yield a problem for each property that the method or the grant needs and the job lacks."""
    settings = properties.section(HttpSection).authentication
    if settings is None:
        return
    source = properties.section(SourceSection)
    has_user, has_password = source.username is not None, source.password is not None
    if settings.method in _WRITTEN and settings.token is None and not has_user:
        yield Problem(
            properties.origin(AUTHENTICATION),
            AUTHENTICATION,
            f"has no token, and there is no {USER}",
            f"Add a token, or set {USER} and {PASSWORD}.",
        )
    if settings.grant == "password" and not (has_user and has_password):
        yield Problem(
            properties.origin(AUTHENTICATION),
            AUTHENTICATION,
            f"has the grant password, and {USER} or {PASSWORD} is not set",
            "Set both: they are sent to tokenUri.",
        )


def _header_problems(properties: Properties) -> Iterator[Problem]:
    name = properties.section(SendingSection).idempotency_header
    if name and not _HEADER_NAME.fullmatch(name):
        yield Problem(
            properties.origin(IDEMPOTENCY_HEADER),
            IDEMPOTENCY_HEADER,
            f'is "{name}", which cannot be the name of a header',
            "Write the name of a header, for example Idempotency-Key.",
        )


def _sending_problems(properties: Properties) -> Iterator[Problem]:
    sending = properties.section(SendingSection)
    if sending.is_safe and properties.section(SecondarySection).has_payload:
        yield Problem(
            properties.origin(METHOD),
            METHOD,
            f"is {sending.method}, which has no body, and {SECONDARY} has rows to send",
            "Use POST or PUT.",
        )
