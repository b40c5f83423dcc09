"""Checks over several properties. Source: behaviour.md B19."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from dil.config.findings import Findings
from dil.model.job import PlanningSpec, PublishingSpec, PublishMode
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.model.secret import Secret
from dil.model.settings import (
    Authentication,
    DerivedField,
    Pagination,
    Parameter,
    SessionKeyField,
)
from dil.text.variables import placeholders

_JOB_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def check_names(values: Properties, findings: Findings) -> None:
    """Check the names that become keys, folders and Avro names."""
    name = values.text("job.name")
    if name and not _JOB_NAME.fullmatch(name):
        findings.problem(
            "job.name", f'is "{name}"', "Use letters, digits, dot, dash and underscore only."
        )
    table = values.text("extract.table.name")
    is_avro = values.text("writer.output.format") in {"AVRO", "OTHER"}
    pattern = _AVRO_NAME if is_avro else _TABLE_NAME
    if table and not pattern.fullmatch(table):
        findings.problem(
            "extract.table.name",
            f'is "{table}", which names no {"Avro record" if is_avro else "folder"}',
            "Use letters, digits and underscore, not a digit first.",
        )
    namespace = values.text("extract.namespace")
    if namespace and not _NAMESPACE.fullmatch(namespace):
        findings.problem(
            "extract.namespace", f'is "{namespace}"', "Write names separated by dots: com.acme.crm."
        )


def check_publishing(
    planning: PlanningSpec, publishing: PublishingSpec, values: Properties, findings: Findings
) -> None:
    """Say where reading again meets plain appending (spec README 20)."""
    if planning.grace_ms > 0 and publishing.mode is PublishMode.APPEND:
        key = "ms.grace.period" if "ms.grace.period" in values.explicit else "ms.grace.period.days"
        findings.notice(
            key,
            "reads rows again, and plain append keeps each version",
            "Set ms.publish.mode=window_replace to keep the newest reading only.",
        )


def check_proxy(values: Properties, findings: Findings) -> None:
    """Say when only one half of the proxy is given."""
    has_host = bool(values.text("source.conn.use.proxy.url"))
    has_port = values.integer("source.conn.use.proxy.port") > 0
    if has_host != has_port:
        key = "source.conn.use.proxy.url" if has_host else "source.conn.use.proxy.port"
        findings.problem(key, "is one half of the proxy", "Give both host and port.")


def check_paging(values: Properties, findings: Findings) -> None:
    """Say when nothing would ever change from page to page, or nothing but an empty page ends."""
    pagination = values["ms.pagination"]
    session = values["ms.session.key.field"]
    if not isinstance(pagination, Pagination) or not pagination.is_on:
        return
    kinds = {parameter.type for parameter in _flat(_parameters(values))}
    if not kinds & {"session", "pagestart", "pagesize", "pageno"}:
        findings.notice(
            "ms.pagination",
            "is on, and no parameter says which page is meant",
            "Declare one of type pagestart, pageno or session in ms.parameters.",
        )
    has_condition = isinstance(session, SessionKeyField) and session.condition is not None
    if not has_condition and not values.text("ms.total.count.field"):
        findings.notice(
            "ms.pagination",
            "ends at the first page without rows",
            "ms.total.count.field or a session condition would save that request.",
        )


def check_placeholders(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Say which ``{{name}}`` nothing gives a value to (B19 check 24)."""
    if planning.units is None:
        return  # Activation rows bring names that are known at run time only.
    given = {name for unit in planning.units for name in json.loads(unit)}
    _check_self_references(values, given, findings)
    known = given | {parameter.name for parameter in _parameters(values)}
    for key, text in _texts(values):
        missing = [name for name in placeholders(text) if name not in known]
        for name in missing:
            findings.notice(
                key,
                f"uses {{{{{name}}}}}, which nothing gives a value",
                "Declare it in ms.parameters, or as a unit.",
            )


def _check_self_references(values: Properties, given: set[str], findings: Findings) -> None:
    """Refuse a parameter that needs its own value (B6.4), unless a unit gives that value."""
    for parameter in _flat(_parameters(values)):
        needed = {name for text in _strings(parameter.value) for name in placeholders(text)}
        if parameter.name in needed - given:
            findings.problem(
                "ms.parameters",
                f'"{parameter.name}" refers to itself',
                "Use the name of another parameter, or of a unit.",
            )


def _parameters(values: Properties) -> tuple[Parameter, ...]:
    found = values["ms.parameters"]
    return found if isinstance(found, tuple) else ()


def _flat(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    for parameter in parameters:
        yield parameter
        if parameter.type == "object":
            yield from _flat(parameter.value)


def _texts(values: Properties) -> Iterator[tuple[str, str]]:
    """Yield (property, text) of everything in which variables are replaced."""
    yield "ms.source.uri", values.text("ms.source.uri")
    headers = values["ms.http.request.headers"]
    for text in headers.values() if isinstance(headers, dict) else ():
        yield "ms.http.request.headers", text.reveal() if isinstance(text, Secret) else text
    authentication = values["ms.authentication"]
    if isinstance(authentication, Authentication) and authentication.token is not None:
        yield "ms.authentication", authentication.token.reveal()
    for parameter in _flat(_parameters(values)):
        for text in _strings(parameter.value):
            yield "ms.parameters", text
    fields = values["ms.derived.fields"]
    for derived in fields if isinstance(fields, tuple) else ():
        if isinstance(derived, DerivedField):
            yield "ms.derived.fields", derived.formula.source


def _strings(value: JsonValue | tuple[object, ...]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
