"""What the job says about HTTP, read once for each attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from dil.model.authentication import Authentication
from dil.model.job import Job
from dil.model.secret import Secret
from dil.model.settings import HttpStatuses, HttpStatusReasons, TlsSettings

METHODS = ("GET", "GET_XE")


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often, and for how many seconds altogether, one request may be sent again."""

    attempts: int = 3
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The connector's view of a job.

    ``encodes`` is False for GET_XE: values go into the URI as they are. ``declared`` are the
    names of all parameters; one without a value is absent, not unknown.
    """

    uri: str
    encodes: bool = True
    headers: Mapping[str, str | Secret] | None = None
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

    @classmethod
    def of(cls, job: Job) -> HttpSettings:
        """Read the properties of B7 from a parsed job."""
        properties = job.properties
        headers = cast("Mapping[str, str | Secret]", properties["ms.http.request.headers"] or {})
        authentication = cast("Authentication | None", properties["ms.authentication"])
        host = properties.text("source.conn.use.proxy.url")
        port = properties.integer("source.conn.use.proxy.port")
        return cls(
            uri=job.source.uri,
            encodes=properties.text("ms.http.request.method").upper() != "GET_XE",
            headers=headers,
            authentication=authentication,
            username=job.source.username,
            password=job.source.password,
            statuses=properties.typed("ms.http.statuses", HttpStatuses),
            reasons=properties.typed("ms.http.status.reasons", HttpStatusReasons),
            tls=cast("TlsSettings | None", properties["ms.ssl"]) or TlsSettings(),
            pool_size=properties.integer("ms.http.conn.max") or 50,
            proxy=_proxy(host, port),
            retry=RetryBudget(
                properties.integer("ms.http.retry.max"),
                properties.integer("ms.http.retry.max.seconds"),
            ),
            declared=frozenset(parameter.name for parameter in job.extraction.parameters),
        )


def _proxy(host: str, port: int) -> str:
    """Return the proxy's address; it is used only when host and port are both set (B7.2)."""
    if not host or port <= 0:
        return ""
    return f"{host if '://' in host else f'http://{host}'}:{port}"
