"""The job's settings of HTTP, read once for each attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.http.credential_sources import CredentialSources, credential_sources
from connectors.http.section import HttpSection
from dil.model.authentication import Authentication
from dil.model.job import ExpansionSpec, Job
from dil.model.secret import Secret
from dil.model.settings import (
    HttpStatuses,
    HttpStatusReasons,
    SecondaryRetry,
    TlsSettings,
)
from dil.sections.http import SendingSection
from dil.sections.source import SourceSection

_UNENCODED = "GET_XE"
# The methods that RFC 9110 section 9.2.2 calls idempotent: twice has the effect of once.
IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_DEFAULT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often one request may be sent again, and for how many seconds altogether."""

    attempts: int = 3
    seconds: float = _DEFAULT_SECONDS

    @property
    def longest_wait_s(self) -> float:
        """Return the longest wait in seconds that a source may ask for; longer means a spent quota.

        If the budget has 0 seconds, no request is sent again. The default then distinguishes a
        pause from a spent quota.
        """
        return self.seconds or _DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The connector's view of a job.

    ``method`` is the verb as sent. ``encodes`` is False for GET_XE, which puts values into the URI
    unencoded. ``body`` is the template of a body as text, empty if parameters make the body.
    ``declared`` are the names of all parameters; a parameter without a value is absent,
    not unknown. ``idempotency_header`` names the header by which the receiver recognises the row of
    a request; if ``repeats_unsafe`` is true, POST and PATCH may be sent again without this header.
    ``renewal`` says how often to read a new authentication row, and how long to wait before.
    ``body_wait_s`` is the longest wait for the next MiB of a body, 0 for no limit. ``hosts`` are
    other origins that values and answers may lead to. ``expansion`` limits the decoded size of
    compressed bodies. ``credential_sources`` are the properties that give the credentials.
    """

    uri: str
    method: str = "GET"
    encodes: bool = True
    headers: Mapping[str, str | Secret] | None = None
    body: str = ""
    authentication: Authentication | None = None
    username: Secret | None = None
    password: Secret | None = None
    statuses: HttpStatuses = field(default_factory=HttpStatuses)
    reasons: HttpStatusReasons = field(default_factory=HttpStatusReasons)
    tls: TlsSettings = field(default_factory=TlsSettings)
    pool_size: int = 50
    proxy: str = ""
    retry: RetryBudget = RetryBudget()
    declared: frozenset[str] = frozenset()
    idempotency_header: str = ""
    repeats_unsafe: bool = False
    renewal: SecondaryRetry = field(default_factory=SecondaryRetry)
    body_wait_s: float = 600.0
    hosts: tuple[str, ...] = ()
    expansion: ExpansionSpec = field(default_factory=ExpansionSpec)
    credential_sources: CredentialSources = field(default_factory=CredentialSources)

    @classmethod
    def of(cls, job: Job) -> HttpSettings:
        """Return the settings of a parsed job."""
        properties = job.properties
        http, sending = properties.section(HttpSection), properties.section(SendingSection)
        source = properties.section(SourceSection)
        # The authentication input is read again as its own retry says, else by the defaults.
        inputs = job.secondary.of("authentication")
        return cls(
            uri=job.source.uri,
            method="GET" if sending.method == _UNENCODED else sending.method,
            encodes=sending.method != _UNENCODED,
            headers=http.headers,
            body=http.body,
            authentication=http.authentication,
            username=job.source.username,
            password=job.source.password,
            statuses=http.statuses,
            reasons=http.reasons,
            tls=source.tls,
            pool_size=http.pool_size,
            proxy=source.proxy,
            retry=RetryBudget(http.retries, http.retry_s),
            declared=frozenset(parameter.name for parameter in job.extraction.parameters),
            idempotency_header=sending.idempotency_header,
            repeats_unsafe=sending.repeats_unsafe,
            renewal=(inputs[0].retry if inputs else None) or SecondaryRetry(),
            body_wait_s=http.body_wait_s,
            hosts=source.hosts,
            expansion=job.extraction.expansion,
            credential_sources=credential_sources(job),
        )


def repeats_rows(settings: HttpSettings) -> bool:
    """Return whether a request with a payload row may be sent again although it may have been done.

    The method (RFC 9110 section 9.2.2), the key of the row, or the job may allow it.
    """
    is_safe = settings.method in IDEMPOTENT or settings.repeats_unsafe
    return is_safe or bool(settings.idempotency_header)
