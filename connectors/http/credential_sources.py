"""Names the properties that give a request its credentials, for advice after a refusal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from connectors.http.section import AUTHENTICATION, HEADERS, HttpSection
from dil.model.job import Job
from dil.model.secret import Secret
from dil.model.settings import Parameter, flat_parameters
from dil.sections.parameters import KEY as PARAMETERS
from dil.sections.secondary import KEY as SECONDARY
from dil.sections.source import PASSWORD, URI, USER

_NAME = re.compile(r"auth|cookie|secret|passw|\bpwd\b|token|api[-_]?key|^key$|^sig", re.IGNORECASE)
_NONE_SENT = (
    "The job sends no credentials: set ms.authentication, or add the header or parameter that the"
    " source requires."
)


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
        if _is_credential(each)
    ]
    parts = urlsplit(job.source.uri)
    if "@" in parts.netloc or any(_NAME.search(name) for name, _ in parse_qsl(parts.query)):
        found.append(URI)
    fields = frozenset(name for each in inputs for name in each.fields)
    declared = frozenset(each.name for each in job.extraction.parameters)
    return CredentialSources(tuple(found), fields, declared)


def _is_credential(parameter: Parameter) -> bool:
    if parameter.type not in {"list", "primitive"}:
        return False
    value = parameter.value
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(each, Secret) for each in values) or bool(_NAME.search(parameter.name))
