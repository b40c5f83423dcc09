"""Checks of the texts of properties: characters, names, hosts, credentials, date patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.identity import NAME, NAMESPACE, TABLE_NAME, DatasetSection, JobSection
from dil.config.property import properties_of
from dil.config.requests import all_parameters
from dil.config.writing import WritingSection
from dil.model.job import OutputFormat
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Section, ValueType, prop
from dil.sections.conversion import DERIVED, DerivedSection
from dil.sections.parameters import PARAMETERS
from dil.sections.source import PROXY, PROXY_PORT, URI, SourceSection
from dil.text.lenient_json import HALF_FIX
from dil.text.origins import HOSTS, is_host_entry

_NUL_IN_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLACES = (".uri", ".url", ".dir", ".loc", ".path", ".host", ".filename", ".file.name", "job.name")
_ANY_TEXT = frozenset({"ms.csv", "ms.watermark"})  # separators, and units, which are data

# Names of query members and parameters whose value is a credential; a short "key" may be anything.
_CREDENTIAL = (
    r"(?:x-)?(?:api|access|auth|app|license|subscription|functions?)[-_]?(?:key|token)|appid"
    r"|(?:client[-_]?)?secret|(?:(?:bearer|refresh|private|security)[-_]?)?token|sig|signature"
    r"|passw(?:or)?d|pwd|key(?==[^&;\s]{16}|\Z)"
)
_IN_ADDRESS = re.compile(
    rf"[?&;](?:{_CREDENTIAL})=(?!\{{\{{|&|;|\Z)|://[^/@\s:]*:[^/@\s{{]+@", re.IGNORECASE
)
_CREDENTIAL_NAME = re.compile(_CREDENTIAL, re.IGNORECASE)
_LONG_KEY = 16
# Python keeps bytes of the command line and of the environment that are not UTF-8 as these halves
# of surrogate pairs.
_UNDECODED = re.compile("[\udc80-\udcff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_JOB_NAME = re.compile(r"[A-Za-z0-9._-]+(?: [A-Za-z0-9._-]+)*")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROXY_HOST = re.compile(r"[^\s/:?#@\[\]]+|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")  # or IPv6
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_LINT = "ms.lint.patterns"


@dataclass(frozen=True, slots=True)
class LintSection(Section):
    """Whether valid values that are nearly always a mistake are refused."""

    patterns: Annotated[Literal["on", "off"], ONE_OF] = prop(
        _LINT,
        "Refuses valid date patterns that are nearly always a mistake: `YYYY-MM-DD` (DD is the "
        "day of the year), `%Y-%m-%d`, `hh` without `a`, `mm` for a month, `xxxx` without `ww`. "
        "off accepts them.",
        default="on",
        identity=False,
    )


def refuse_lone_surrogates(entries: Mapping[str, Entry], findings: Findings) -> None:
    """Refuse keys and values with bytes that are not UTF-8, or with half of a surrogate pair.

    No file and no database takes them. They come from ``-D``, from the environment and from
    callers in Python: the readers of job files refuse them already.

    Raises:
        ConfigError: a key or a value has such a byte or half; the error has all problems so far.
    """
    before = len(findings.problems)
    for key, entry in entries.items():
        subject, text = (
            ("has a name that", key) if _LONE_SURROGATE.search(key) else ("", entry.text)
        )
        if _UNDECODED.search(text):
            what, fix = "holds bytes that are not UTF-8", "Give it in UTF-8, as job files are."
        elif _LONE_SURROGATE.search(text):
            what, fix = "holds half of a surrogate pair", HALF_FIX
        else:
            continue
        findings.problem(key, f"{subject} {what}".lstrip(), fix, entry.origin)
    if len(findings.problems) > before:
        findings.raise_problems()


def refuse_control_characters(entries: Mapping[str, Entry], findings: Findings) -> None:
    """Refuse NUL in values except separators and units, and control characters in addresses.

    No file, host, database or statement takes these characters, and each reader of such a value
    would fail in its own way.

    Raises:
        ConfigError: a value holds such a character; the error has all problems so far.
    """
    before = len(findings.problems)
    for key, entry in entries.items():
        text = entry.text.strip()
        is_json = text.startswith(("[", "{"))
        if key not in _ANY_TEXT and ("\0" in text or (is_json and _NUL_IN_JSON.search(text))):
            findings.problem(key, "holds a NUL character", "Take it out.", entry.origin)
        elif key.endswith(_PLACES) and not is_json and (found := _CONTROL.search(text)):
            word = f"\\u{ord(found[0]):04x}"
            findings.problem(
                key, f"holds the control character {word}", "Take it out.", entry.origin
            )
    if len(findings.problems) > before:
        findings.raise_problems()


def note_plain_credentials(
    values: Properties, entries: Mapping[str, Entry], findings: Findings
) -> None:
    """Note credentials in plain text in addresses of source and proxy, and in parameters."""
    addresses = {URI: values.section(SourceSection).uri, PROXY: values.section(SourceSection).proxy}
    for key, address in addresses.items():
        entry = entries.get(key)
        if entry and not entry.is_masked and _IN_ADDRESS.search(address):
            findings.plain_secrets.setdefault(key, entry.origin)
    given = entries.get(PARAMETERS)
    if given is None or given.is_masked:
        return
    for parameter in all_parameters(values):
        found = parameter.value if isinstance(parameter.value, tuple) else (parameter.value,)
        texts = [each for each in found if isinstance(each, str) and each and "{{" not in each]
        if parameter.name.lower() == "key":
            texts = [each for each in texts if len(each) >= _LONG_KEY]
        if texts and _CREDENTIAL_NAME.fullmatch(parameter.name):
            findings.plain_secrets.setdefault(PARAMETERS, given.origin)


def check_names_and_hosts(values: Properties, findings: Findings) -> None:
    """Check names that become keys, folders and Avro names, and hosts that a job connects to.

    No finding shows the login of a proxy.
    """
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
            TABLE_NAME,
            f'is "{dataset.table}", which names no {"Avro record" if is_avro else "folder"}',
            "Use letters, digits and underscores, and no digit at the beginning.",
        )
    if dataset.namespace and not _NAMESPACE.fullmatch(dataset.namespace):
        fix = "Write names separated by dots: com.acme.crm."
        findings.problem(NAMESPACE, f'is "{dataset.namespace}"', fix)
    source = values.section(SourceSection)
    has_host, has_port = bool(source.proxy_host), source.proxy_port > 0
    if has_host != has_port:
        key = PROXY if has_host else PROXY_PORT
        findings.problem(key, "is one half of the proxy", "Give both host and port.")
    scheme, _, host = source.proxy_parts
    if has_host and not _PROXY_HOST.fullmatch(host):
        fix = f"Write a host, or user:${{env:NAME}}@host; its port is {PROXY_PORT}."
        findings.problem(PROXY, "names no host", fix)
    elif has_host and scheme.lower() not in {"http", "https"}:
        fix = "Name an HTTP proxy: a host, or http://host or https://host."
        findings.problem(PROXY, "names a proxy of an unsupported scheme", fix)  # May hold a login.
    for text in source.hosts:
        if not is_host_entry(text):
            findings.problem(
                HOSTS,
                f'has "{text}", which is no host',
                "Write host, host:port or https://host, with commas between; *.host allows any one "
                "name before host.",
            )


def check_patterns(values: Properties, findings: Findings) -> None:
    """Report date patterns that are likely mistakes."""
    if values.section(LintSection).patterns == "off":
        return
    for key, place, pattern in _patterns(values):
        from dil.text.joda_mistakes import find_mistake  # few jobs have patterns

        if found := find_mistake(pattern):
            reason, likely = found
            findings.problem(
                key,
                f"{place} the date pattern {quote(pattern)}, in which {reason}",
                f"Write {likely}, or set {_LINT}=off if it is meant.",
            )


def _patterns(values: Properties) -> Iterator[tuple[str, str, str]]:
    """Yield key, place and text of each pattern that the user wrote."""
    for section in values.sections():
        for entry in properties_of(type(section)):
            if entry.type is ValueType.DATE_PATTERNS and entry.name in values.explicit:
                written: tuple[str, ...] = getattr(section, entry.field)
                yield from ((entry.name, "has", each) for each in written if each != "iso")
    for parameter in all_parameters(values):
        if parameter.format == "datetime" and parameter.pattern:
            yield PARAMETERS, f'parameter "{parameter.name}" has', parameter.pattern
    for field in values.section(DerivedSection).fields:
        if field.formula.type == "epoc" and field.formula.format.lower() != "iso":
            yield DERIVED, f'field "{field.name}" has', field.formula.format
