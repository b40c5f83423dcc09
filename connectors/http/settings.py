"""The job's settings of HTTP, read once for each attempt, and the services of a session."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from connectors.http.section import AUTHENTICATION, HEADERS, HttpSection
from dil.model.authentication import Authentication
from dil.model.job import ExpansionSpec, Job
from dil.model.secondary import SecondaryRetry
from dil.model.secret import Secret
from dil.model.settings import (
    HttpStatuses,
    HttpStatusReasons,
    Parameter,
    TlsSettings,
    flat_parameters,
)
from dil.sections.http import SendingSection
from dil.sections.parameters import PARAMETERS
from dil.sections.secondary import SECONDARY
from dil.sections.source import PASSWORD, URI, USER, SourceSection
from dil.spi.audit import AuditTrail, NoAudit
from dil.spi.coordination import Coordinator, Uncoordinated
from dil.spi.shared import Shared

_UNENCODED = "GET_XE"
# The methods that RFC 9110 section 9.2.2 calls idempotent: twice has the effect of once.
IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_DEFAULT_SECONDS = 120.0
_NAME = re.compile(r"auth|cookie|secret|passw|\bpwd\b|token|api[-_]?key|^key$|^sig", re.IGNORECASE)
_NONE_SENT = (
    "The job sends no credentials: set ms.authentication, or add the header or parameter that the"
    " source requires."
)


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
class CredentialSources:
    """The properties that give a job's requests their credentials.

    Attributes:
        places: The properties, with the header or parameter in question.
        fields: The variables of the authentication input.
        declared: The names of parameters.
    """

    places: tuple[str, ...] = ()
    fields: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()

    @property
    def advice(self) -> str:
        """Return the advice for the case that the source refuses the credentials."""
        if not self.places:
            return _NONE_SENT
        *others, last = self.places
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"Check {listed}: the request's credentials come from there."

    def giver(self, own: str, variables: frozenset[str]) -> str:
        """Return the property that gives these variables their values, ``own`` if none does."""
        if variables & self.fields:
            return SECONDARY
        return PARAMETERS if variables & self.declared else own


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The connector's view of a job.

    ``method`` is the verb as sent. ``encodes`` is False for GET_XE, which puts values into the URI
    unencoded. ``body`` is the template of a body as text, empty if parameters make the body.
    ``declared`` are the names of all parameters; a parameter without a value is absent,
    not unknown. ``idempotency_header`` names the header by which the receiver recognises the row of
    a request; if ``repeats_unsafe`` is true, POST and PATCH may be sent again without this header.
    ``renewal`` says how often to read a new authentication row, and how long to wait before.
    ``body_wait_s`` is the longest wait for the headers and for the next MiB of a body, 0 for no
    limit. ``hosts`` are other origins that values and answers may lead to. ``expansion`` limits the
    decoded size of compressed bodies. ``credential_sources`` are the properties that give the
    credentials.
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


def credential_sources(job: Job) -> CredentialSources:
    """Return the properties that give a job's requests their credentials."""
    section = job.properties.section(HttpSection)
    found: list[str] = []
    settings = section.authentication
    if settings is not None:
        found.append(AUTHENTICATION)
        if settings.grant == "password" or (not settings.is_fetched and settings.token is None):
            found += [USER, PASSWORD]
    inputs = job.secondary.of("authentication")
    if inputs:
        found.append(f"the authentication input of {SECONDARY}")
    headers = section.headers or {}
    found += [
        f'header "{name}" of {HEADERS}'
        for name, value in headers.items()
        if isinstance(value, Secret) or _NAME.search(name)
    ]
    found += [
        f'parameter "{each.name}" of {PARAMETERS}'
        for each in flat_parameters(job.extraction.parameters)
        if each.type in {"list", "primitive"} and (holds_secret(each) or _NAME.search(each.name))
    ]
    parts = urlsplit(job.source.uri)
    if "@" in parts.netloc or any(_NAME.search(name) for name, _ in parse_qsl(parts.query)):
        found.append(URI)
    fields = frozenset(name for each in inputs for name in each.fields)
    declared = frozenset(each.name for each in job.extraction.parameters)
    return CredentialSources(tuple(found), fields, declared)


def holds_secret(parameter: Parameter) -> bool:
    """Return whether the value of a parameter is a secret, or a list with one."""
    value = parameter.value
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(each, Secret) for each in values)


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """The services that all tasks share, and this machine's clocks.

    ``renewed`` reads the authentication input again; it is None if the job has none. ``wall_clock``
    and ``monotonic`` return seconds, ``chance`` a number in [0, 1). ``audit`` records sent
    requests. ``shared`` keeps pools of connections for the task's next work unit; it is None if
    each session has a pool of its own.
    """

    coordinator: Coordinator = field(default_factory=Uncoordinated)
    renewed: Callable[[], Mapping[str, Secret]] | None = None
    sleep: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    wall_clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    audit: AuditTrail = field(default_factory=NoAudit)
    shared: Shared | None = None
