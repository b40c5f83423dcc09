"""Checks of names and hosts that become keys, folders, Avro names or addresses."""

from __future__ import annotations

import re

from dil.config.findings import Findings
from dil.config.identity import NAME, NAMESPACE, TABLE, DatasetSection, JobSection
from dil.config.writing import WritingSection
from dil.model.job import OutputFormat
from dil.model.properties import Properties
from dil.sections.source import PROXY, PROXY_PORT, SourceSection
from dil.text.origins import HOSTS, is_host_entry

_JOB_NAME = re.compile(r"[A-Za-z0-9._-]+(?: [A-Za-z0-9._-]+)*")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROXY_HOST = re.compile(r"[^\s/:?#@\[\]]+|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")  # or IPv6
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def check_names(values: Properties, findings: Findings) -> None:
    """Check the names that become keys, folders and Avro names."""
    name, dataset = values.section(JobSection).name, values.section(DatasetSection)
    if name and not _JOB_NAME.fullmatch(name):
        findings.problem(
            NAME,
            f'is "{name}"',
            "Use letters, digits, dot, dash, underscore, and single blanks between them.",
        )
    is_avro = values.section(WritingSection).format is OutputFormat.AVRO
    pattern = _AVRO_NAME if is_avro else _TABLE_NAME
    if dataset.table and not pattern.fullmatch(dataset.table):
        findings.problem(
            TABLE,
            f'is "{dataset.table}", which names no {"Avro record" if is_avro else "folder"}',
            "Use letters, digits and underscores, and no digit at the beginning.",
        )
    if dataset.namespace and not _NAMESPACE.fullmatch(dataset.namespace):
        findings.problem(
            NAMESPACE, f'is "{dataset.namespace}"', "Write names separated by dots: com.acme.crm."
        )


def check_hosts(values: Properties, findings: Findings) -> None:
    """Check the form of the hosts that a job may connect to."""
    for text in values.section(SourceSection).hosts:
        if not is_host_entry(text):
            findings.problem(
                HOSTS,
                f'has "{text}", which is no host',
                "Write host, host:port or https://host, with commas between; *.host allows any one "
                "name before host.",
            )


def check_proxy(values: Properties, findings: Findings) -> None:
    """Report half a proxy, and a host that cannot be one; no finding shows the login."""
    source = values.section(SourceSection)
    has_host, has_port = bool(source.proxy_host), source.proxy_port > 0
    if has_host != has_port:
        key = PROXY if has_host else PROXY_PORT
        findings.problem(key, "is one half of the proxy", "Give both host and port.")
    host = source.proxy_parts[2]
    if has_host and not _PROXY_HOST.fullmatch(host):
        findings.problem(
            PROXY,
            "names no host",
            f"Write a host, or user:${{env:NAME}}@host; its port is {PROXY_PORT}.",
        )
