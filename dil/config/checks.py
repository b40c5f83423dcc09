"""Checks over several properties: names, proxy, paging. Source: behaviour.md B19."""

from __future__ import annotations

import re

from dil.config.findings import Findings
from dil.config.parameter_checks import all_parameters
from dil.model.properties import Properties
from dil.model.settings import Pagination, SessionKeyField

_JOB_NAME = re.compile(r"[A-Za-z0-9._-]+(?: [A-Za-z0-9._-]+)*")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def check_names(values: Properties, findings: Findings) -> None:
    """Check the names that become keys, folders and Avro names."""
    name = values.text("job.name")
    if name and not _JOB_NAME.fullmatch(name):
        findings.problem(
            "job.name",
            f'is "{name}"',
            "Use letters, digits, dot, dash, underscore, and single blanks between them.",
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
    kinds = {parameter.type for parameter in all_parameters(values)}
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
