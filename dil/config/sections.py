"""Makes sections of entries: each property of the table gets its parsed value or its default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeVar, cast

from dil.config import values
from dil.config.canonical import shown
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.identity import CLASS, TABLE_NAME
from dil.config.property import Property, properties_by_name, properties_of
from dil.config.read_context import JobFileLocation, JobReadContext
from dil.config.secrets import SecretsSection, secret_resolver
from dil.config.table import SECTIONS, TABLE
from dil.config.watermarks import ZONE, PlanningSection
from dil.errors import Origin
from dil.model.json import JsonValue
from dil.model.secret import Secret
from dil.model.section import Blank, Reader, Reported, Section, Support, ValueType, Written
from dil.secrets import SecretResolver
from dil.sections.extraction import EXTRACTOR, names_file_dump, needs_extractor
from dil.sections.file_systems import FileSystemsSection
from dil.sections.query import INPUTS, SOURCE_KEYS
from dil.sections.reading import ShapeError, adapter, as_array, as_object, build
from dil.text.lenient_json import JsonError, parse

S = TypeVar("S", bound=Section)

_JSON_FIX = 'Write [...] or {...}; put names and texts in double quotes: {"name": "text"}.'
_QUOTE_FIX = (
    r'Is a quote meant inside a text? Write \\" for it: JSON wants \", and a property file doubles '
    "the backslash."
)
_YAML_QUOTE_FIX = r"Is a quote meant inside a text? Write \" for it."
_BACKSLASH_FIX = (
    r"A backslash of a text is \\ in JSON, and \\\\ in a property file, which halves them;"
    " paths may have / in its place."
)
_YAML = (".yaml", ".yml")
# A drive letter, and after it the characters that \n, \t and such became, raw or escaped in JSON.
_BROKEN_PATH = re.compile(r'"[A-Za-z]:(?:[^"\s\\]|\\[^bfnrt])*(?:[\n\r\t\f\x08]|\\[bfnrt])')


def evaluate(
    entries: Mapping[str, Entry],
    place: JobFileLocation,
    findings: Findings,
    *,
    secrets: bool,
) -> tuple[list[Section], JobReadContext]:
    """Return the sections of a job, and the context with which their values were read.

    A property with a problem holds its default. If ``secrets`` is false, a secret that cannot be
    read is empty and gives a notice.
    """
    plain = JobReadContext(SecretResolver(place.environ, place.folder), "UTC")
    systems = read_section(FileSystemsSection, entries, plain, findings)
    passwords = read_section(SecretsSection, entries, plain, findings)
    resolver = secret_resolver(passwords, systems.of_keys, place, findings, needed=secrets)
    zone = read_zone(entries, plain, findings)
    around = JobReadContext(resolver, zone, needs_secrets=secrets, file_system=systems.every)
    first: list[Section] = [systems, passwords]
    rest = (each for each in SECTIONS if each not in {FileSystemsSection, SecretsSection})
    return [*first, *(read_section(each, entries, around, findings) for each in rest)], around


def read_zone(entries: Mapping[str, Entry], plain: JobReadContext, findings: Findings) -> str:
    """Return the job's time zone: the zone of every text that names none."""
    only = {name: entry for name, entry in entries.items() if name == ZONE}
    return read_section(PlanningSection, only, plain, findings).zone


def read_section(
    section: type[S], entries: Mapping[str, Entry], around: JobReadContext, findings: Findings
) -> S:
    """Return a section from the entries of its properties; a wrong property has its default."""
    declared = properties_by_name(section)
    written = {
        name: entries[name] for name in declared if name in entries and findings.is_sound(name)
    }
    if not written:
        return section()
    # A secret that cannot be read is not missing; no check may call it missing.
    secrets = {name: Secret("") for name, entry in declared.items() if entry.secret}
    found, wrong = validate(section, written, _Reader(declared, around, findings), secrets)
    for name, error in wrong.items():
        _report_problem(declared[name], written[name], error, findings)
    default = section()
    for entry in declared.values():
        if entry.name in written and findings.is_sound(entry.name):
            is_default = getattr(found, entry.field) == getattr(default, entry.field)
            _report_support(entry, written[entry.name], findings, is_default=is_default)
    return found


def validate(
    section: type[S],
    written: Mapping[str, object],
    reader: Reader,
    stand_ins: Mapping[str, object] = MappingProxyType({}),
) -> tuple[S, dict[str, ValueError]]:
    """Return a section from the entries of its properties, and the error of each wrong property.

    A property with a problem holds its stand-in, or else its default.

    pydantic, whose import takes longer than reading a job file, validates the section only if a
    value is wrong, or a type has constraints that only pydantic knows.
    """
    declared = [entry for entry in properties_of(section) if entry.name in written]
    if not any(entry.is_constrained for entry in declared):
        members: dict[str, Any] = {}
        with suppress(ValueError):
            for entry in declared:
                with suppress(Blank):
                    text = written[entry.name]
                    members[entry.field] = reader.value(entry.written, entry.kind, text)
            return section(**members), {}
    from pydantic import ValidationError

    try:
        found: S = adapter(cast("Any", section)).validate_python(written, context=reader)
    except ValidationError as error:
        wrong: dict[str, ValueError] = {}
        for each in error.errors(include_url=False):
            raised = each.get("ctx", {}).get("error")  # of a reader, or a constraint of pydantic
            if not isinstance(raised, ValueError):
                raised = values.ValueProblem("", f"{each['msg']}.")
            wrong[str(each["loc"][0])] = raised
    else:
        return found, {}
    sound = {name: entry for name, entry in written.items() if name not in wrong}
    sound |= {name: value for name, value in stand_ins.items() if name in wrong}
    found, _ = validate(section, sound, reader)
    return found, wrong


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the entry of a property as its declaration says."""

    declared: Mapping[str, Property]
    around: JobReadContext
    findings: Findings

    def value(self, written: Written, type_: object, text: object) -> object:
        """Return the value of an entry.

        Raises:
            ValueError: the text is wrong; the error is a ValueProblem or a ShapeError.
        """
        if not isinstance(text, Entry):
            return text
        entry = self.declared[text.key]
        around = at_entry(self.around, text, self.findings)
        plain = text.text.strip()
        value: object
        if entry.type.is_json:
            found = _read_json(entry, text, self.findings)
            value = as_array(found) if entry.type is ValueType.JSON_ARRAY else as_object(found)
            if not value and not written.reads_empty:
                raise Blank
        elif entry.secret:
            value = around.secret(plain, is_always_read=written.is_always_read)
        elif entry.type.may_be_object and plain.startswith("{"):
            value = _read_json(entry, text, self.findings)
        else:
            value = values.parse(entry, plain)
        if written.read is not None:
            return written.read(value, around)
        if entry.model is not None and entry.kind is entry.model:
            return build(entry.model, as_object(cast("JsonValue", value)))
        if isinstance(type_, type) and issubclass(type_, StrEnum):
            return type_(str(value))
        return value


def report_missing(
    entries: Mapping[str, Entry], blanks: Mapping[str, Entry], path: str, findings: Findings
) -> None:
    """Report required properties that are not set or are blank."""
    for entry in TABLE.values():
        if not entry.required or entry.name in entries:
            continue
        if entry.name in SOURCE_KEYS and INPUTS in entries:
            continue  # a query reads datasets
        connector = entries.get(CLASS)
        if entry.name == EXTRACTOR and connector and not needs_extractor(connector.text.strip()):
            continue
        extractor = entries.get(EXTRACTOR)
        if entry.name == TABLE_NAME and extractor and names_file_dump(extractor.text.strip()):
            continue  # without rows a dataset needs no name
        if entry.name in blanks:
            origin = blanks[entry.name].origin
            findings.problem(entry.name, "is required and blank", entry.meaning, origin)
        else:
            typo = findings.likely_typos.get(entry.name)
            fix = f"Is {typo.key} ({typo.origin}) meant? {entry.meaning}" if typo else entry.meaning
            findings.problem(entry.name, "is required and not set", fix, Origin(path))


def _report_problem(entry: Property, written: Entry, error: ValueError, findings: Findings) -> None:
    if isinstance(error, ShapeError):
        for what, fix in error.findings:
            findings.problem(entry.name, what, fix, written.origin)
    elif isinstance(error, values.ValueProblem):
        text = shown(written, secret=entry.secret)
        reason = f", which {error.what}" if error.what else ""
        findings.problem(entry.name, f"is {text}{reason}", error.fix, written.origin)
    else:
        raise error


def at_entry(around: JobReadContext, written: Entry, findings: Findings) -> JobReadContext:
    """Return the context for reading one entry: its notices and secrets belong to the entry."""

    def note_plain() -> None:
        if not written.is_masked:  # else it came from the environment
            findings.plain_secrets.setdefault(written.key, written.origin)

    return replace(
        around,
        key=written.key,
        plain=note_plain,
        notice=lambda what, fix: findings.notice(written.key, what, fix, written.origin),
    )


def _read_json(entry: Property, written: Entry, findings: Findings) -> JsonValue:
    try:
        value, difference = parse(written.text)
    except JsonError as error:
        fix = error.fix or _JSON_FIX
        if error.has_inner_quote:
            fix = _YAML_QUOTE_FIX if written.origin.path.endswith(_YAML) else _QUOTE_FIX
        origin = written.origin_of_line(error.line)
        findings.problem(entry.name, f"is no JSON: {error.reason}", fix, origin)
        raise ShapeError from error
    if difference:
        fix = _BACKSLASH_FIX if "backslash" in difference else ""
        findings.notice(entry.name, difference, fix, written.origin)
    if _BROKEN_PATH.search(written.text):
        what = "has a path whose backslashes were read as line breaks or tabs"
        findings.notice(entry.name, what, _BACKSLASH_FIX, written.origin)
    return value


def _report_support(
    entry: Property, written: Entry, findings: Findings, *, is_default: bool
) -> None:
    """Report a value that differs from the default and has no effect."""
    if is_default:
        return
    if entry.support is Support.REFUSED:
        findings.problem(entry.name, "is not supported", entry.meaning, written.origin)
    elif entry.support is Support.INTERNAL:
        findings.notice(entry.name, "is set by planning; the value is ignored", "", written.origin)
    elif entry.support is Support.NO_EFFECT and entry.reported is Reported.ALONE:
        findings.notice(entry.name, "has no effect", entry.meaning, written.origin)
    elif entry.support is Support.NO_EFFECT and entry.reported is Reported.TOGETHER:
        findings.without_effect.append(entry.name)
