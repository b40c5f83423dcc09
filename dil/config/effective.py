"""Entries to sections: every property of the table, parsed or defaulted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from dil.config import values
from dil.config.canonical import shown
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.lenient_json import JsonError, parse
from dil.config.master_passwords import SecretsSection, secret_resolver
from dil.config.preprocessing import names_file_dump
from dil.config.property import Property
from dil.config.sections import properties_of, validate
from dil.config.surroundings import Place, Surroundings
from dil.config.table import SECTIONS, TABLE
from dil.config.watermarks import PlanningSection
from dil.errors import Origin
from dil.model.json import JsonValue
from dil.model.secret import Secret
from dil.model.section import Blank, Section, Support, ValueType, Written, property_name
from dil.secrets import SecretResolver
from dil.spi.file_systems import FileSystemsSection
from dil.spi.reading import ShapeError, as_array, as_object

S = TypeVar("S", bound=Section)

# Accepted without effect, and likely to be missed when it has none.
_NOTED = {"job.schedule", "job.lock.enabled", "extractor.class", "ms.metrics.enabled"}
# Planning and looking at state do without the source, and not without the state store.
_STATE_SECRETS = "state.store."
_TABLE, _ZONE = "extract.table.name", "ms.timezone"


def evaluate(
    entries: Mapping[str, Entry], place: Place, findings: Findings, *, secrets: bool = True
) -> tuple[list[Section], Surroundings]:
    """Return the sections of a job, and what their secrets and zones were read with.

    A property with a problem holds its default. Without ``secrets`` those that cannot be read
    are empty, with a notice.
    """
    plain = Surroundings(SecretResolver(place.environ, place.folder), "UTC", _no_notice)
    systems = read_section(FileSystemsSection, entries, plain, findings)
    passwords = read_section(SecretsSection, entries, plain, findings)
    resolver = secret_resolver(passwords, systems.of_keys, place, findings, needed=secrets)
    zone = read_zone(entries, plain, findings)
    around = Surroundings(resolver, zone, _no_notice, secrets, systems.every)
    first: list[Section] = [systems, passwords]
    rest = (each for each in SECTIONS if each not in {FileSystemsSection, SecretsSection})
    return [*first, *(read_section(each, entries, around, findings) for each in rest)], around


def read_zone(entries: Mapping[str, Entry], plain: Surroundings, findings: Findings) -> str:
    """Return the zone of texts that name none, with which all other properties are read."""
    only = {name: entry for name, entry in entries.items() if name == _ZONE}
    return read_section(PlanningSection, only, plain, findings).zone


def read_section(
    section: type[S], entries: Mapping[str, Entry], around: Surroundings, findings: Findings
) -> S:
    """Return a section from the entries of its properties; one with a problem has its default."""
    declared = {entry.name: entry for entry in properties_of(section)}
    written = {
        name: entries[name] for name in declared if name in entries and findings.is_sound(name)
    }
    # A secret that cannot be read is not a missing one; checks must not call it that.
    secrets = {name: Secret("") for name, entry in declared.items() if entry.secret}
    reader = _Reader(declared, around, findings)
    found, wrong = validate(section, written, reader, secrets)
    for error in wrong:
        entry = declared[str(error["loc"][0])]
        raised = error.get("ctx", {}).get("error", values.out_of_bounds(entry))
        _report_problem(entry, written[entry.name], raised, findings)
    default = section()
    for field in fields(section):
        name = property_name(field)
        if name in written and findings.is_sound(name):
            is_default = getattr(found, field.name) == getattr(default, field.name)
            _report_support(declared[name], written[name], findings, is_default=is_default)
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the entry of a property as its declaration says."""

    declared: Mapping[str, Property]
    around: Surroundings
    findings: Findings

    def value(self, written: Written, type_: object, text: object) -> object:
        """Return the value of an entry.

        Raises:
            ValueError: it is a ValueProblem or a ShapeError.
        """
        if not isinstance(text, Entry):
            return text
        entry = self.declared[text.key]
        if entry.type.is_json:
            return self._json(written, entry, text)
        if entry.type in {ValueType.INT, ValueType.LONG}:
            return values.whole_number(entry, text.text.strip())
        value = self._parsed(entry, text)
        if written.read is not None:
            return written.read(value, at_entry(self.around, text, self.findings))
        if isinstance(type_, type) and issubclass(type_, StrEnum):
            return type_(str(value))
        return value

    def _parsed(self, entry: Property, written: Entry) -> object:
        text = written.text.strip()
        if entry.secret:
            is_of_state = entry.name.startswith(_STATE_SECRETS)
            around = at_entry(self.around, written, self.findings)
            return around.secret(text, is_always_read=is_of_state)
        if entry.type is ValueType.WORD_OR_OBJECT and text.startswith("{"):
            return _read_json(entry, written, self.findings)
        return values.parse(entry, text)

    def _json(self, written: Written, entry: Property, text: Entry) -> object:
        value = _checked_json(entry, text, self.findings)
        if not value and not written.reads_empty:
            raise Blank
        if written.read is None:
            return value
        return written.read(value, at_entry(self.around, text, self.findings))


def _no_notice(what: str, fix: str) -> None:
    """Stand in until the property is known that a notice is about."""
    del what, fix


def report_missing(
    entries: Mapping[str, Entry], blanks: Mapping[str, Entry], path: str, findings: Findings
) -> None:
    """Report required properties that are not set, or blank."""
    for entry in TABLE.values():
        if not entry.required or entry.name in entries:
            continue
        if entry.name == _TABLE and _dumps_files(entries):
            continue
        if entry.name in blanks:
            origin = blanks[entry.name].origin
            findings.problem(entry.name, "is required and blank", entry.meaning, origin)
        else:
            typo = findings.likely_typos.get(entry.name)
            fix = f"Is {typo.key} ({typo.origin}) meant? {entry.meaning}" if typo else entry.meaning
            findings.problem(entry.name, "is required and not set", fix, Origin(path))


def _dumps_files(entries: Mapping[str, Entry]) -> bool:
    """Return whether a job has no rows, so that its dataset needs no name."""
    written = entries.get("ms.extractor.class")
    return written is not None and names_file_dump(written.text.strip())


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


def _checked_json(entry: Property, written: Entry, findings: Findings) -> JsonValue:
    """Return the array or object that a property asks for."""
    value = _read_json(entry, written, findings)
    return as_array(value) if entry.type is ValueType.JSON_ARRAY else as_object(value)


def at_entry(around: Surroundings, written: Entry, findings: Findings) -> Surroundings:
    """Return the surroundings whose notices and secrets are those of one entry."""
    return replace(
        around,
        key=written.key,
        notice=lambda what, fix: findings.notice(written.key, what, fix, written.origin),
    )


def _read_json(entry: Property, written: Entry, findings: Findings) -> JsonValue:
    try:
        value, difference = parse(written.text)
    except JsonError as error:
        origin = written.origin_of_line(error.line)
        findings.problem(entry.name, f"is no JSON: {error.reason}", _json_fix(written), origin)
        raise ShapeError from error
    if difference:
        findings.notice(entry.name, difference, "", written.origin)
    return value


def _json_fix(written: Entry) -> str:
    is_yaml = Path(written.origin.path).suffix in {".yaml", ".yml"}
    return _JSON_FIX if is_yaml or '"' not in written.text else _QUOTE_FIX


_JSON_FIX = 'Write [...] or {...}; names and texts stand in double quotes: {"name": "text"}.'
_QUOTE_FIX = r'In a property file a backslash is doubled: \\" is a quote inside a JSON string.'


def _report_support(
    entry: Property, written: Entry, findings: Findings, *, is_default: bool
) -> None:
    """Report a value that differs from the default and does not have its effect."""
    if is_default:
        return
    if entry.support is Support.LATER:
        fix = f"Leave it out, or write its default: {entry.default}." if entry.default else ""
        findings.problem(entry.name, "is not supported yet", fix or "Leave it out.", written.origin)
    elif entry.support is Support.INTERNAL:
        findings.notice(entry.name, "is set by planning; the value is ignored", "", written.origin)
    elif entry.name in _NOTED:
        findings.notice(entry.name, "has no effect", entry.meaning, written.origin)
