"""Finds the classes that a job names, and the properties that these classes declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dil.config.canonical import shown
from dil.config.destinations import DESTINATION, DestinationSection
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.identity import CLASS, JobSection
from dil.config.output_classes import WRITER, WriterSection, built_in_advice
from dil.config.planning import asked_of_source
from dil.config.preprocessing import find_preprocessors
from dil.config.property import properties_of
from dil.config.read_context import JobReadContext
from dil.config.sections import at_entry, read_section
from dil.config.table import PLUGIN_PREFIX, TABLE
from dil.errors import PluginError, Problem
from dil.model.job import ClassRef, Plugins
from dil.model.messages import quote, suggestion
from dil.model.properties import Properties
from dil.model.section import Section
from dil.sections.conversion import CONVERTERS, ConversionSection
from dil.sections.extraction import EXTRACTOR, ExtractionSection, needs_extractor
from dil.sections.query import FUNCTION, INPUTS, QuerySection
from dil.sections.reading import ShapeError
from dil.spi.connector import Connector, PluginProperty
from dil.spi.converter import Converter
from dil.spi.destination import Destination
from dil.spi.extractor import Extractor
from dil.spi.plugin_failures import plugin_failure
from dil.spi.registry import (
    PluginKind,
    is_built_in,
    is_own,
    load,
    resolve,
    simple_name,
)
from dil.spi.writer import FileWriter

# The writers here do the work of these classes (rules F7 and U7); the Lumos one leaves rows as they
# are, and adds the names of keys to Avro schemas.
_FORMAT_CONVERTERS = {
    "CsvToJsonConverter",
    "CsvToJsonConverterV2",
    "CsvToJsonConverterV3",
    "IdentityConverter",
    "JsonIntermediateToAvroConverter",
    "LumosAttributesConverter",
}
# Placeholders: a job that reads datasets has no connector, and one that reads rows no extractor.
_GIVEN_ROWS = ClassRef("dil.extraction.given_rows", "GivenRows")
_ROWS_AS_THEY_ARE = ClassRef("dil.extraction.json.extractor", "JsonExtractor")
_BASES: Mapping[PluginKind, type] = {
    PluginKind.CONNECTOR: Connector,
    PluginKind.EXTRACTOR: Extractor,
    PluginKind.CONVERTER: Converter,
    PluginKind.DESTINATION: Destination,
    PluginKind.WRITER: FileWriter,
}


def own_classes(values: Properties) -> Iterator[str]:
    """Yield the properties that name a class of the user's own; nothing is imported."""
    if values.section(QuerySection).function:
        yield FUNCTION
    named = {
        entry.written.plugin: (entry.name, getattr(section, entry.field))
        for section in values.sections()
        for entry in properties_of(type(section))
        if entry.written.plugin
    }
    for kind in PluginKind:  # in this order: a refusal names the first property
        key, names = named.get(kind, ("", ()))
        if any(map(is_own, (names,) if isinstance(names, str) else names)):
            yield key


def find_plugins(values: Properties, findings: Findings) -> Plugins:
    """Return the classes that a job names; missing classes become findings."""
    found = [
        _find(PluginKind.CONVERTER, CONVERTERS, name, findings)
        for name in values.section(ConversionSection).classes
        if simple_name(name) not in _FORMAT_CONVERTERS
    ]
    converters = tuple(ref for ref in found if ref is not None)
    if INPUTS in values.explicit:
        return Plugins(_GIVEN_ROWS, _ROWS_AS_THEY_ARE, converters)
    source = values.section(JobSection).source_class
    name = values.section(ExtractionSection).extractor
    destination = values.section(DestinationSection).name
    writer = values.section(WriterSection).name
    extractor = _find(PluginKind.EXTRACTOR, EXTRACTOR, name, findings)
    if not (name or needs_extractor(source)):
        extractor = _ROWS_AS_THEY_ARE
    return Plugins(
        _find(PluginKind.CONNECTOR, CLASS, source, findings),
        extractor,
        converters,
        find_preprocessors(values, findings),
        _find(PluginKind.DESTINATION, DESTINATION, destination, findings),
        _find(PluginKind.WRITER, WRITER, writer, findings),
    )


def read_plugin_properties(
    plugins: Plugins, entries: Mapping[str, Entry], around: JobReadContext, findings: Findings
) -> tuple[dict[str, object], list[Section]]:
    """Return the ``ms.x.`` properties that the job's own classes declare: values, and sections."""
    classes = [load(ref) for ref in _own(plugins.refs)]
    single = {each.name: each for found in classes for each in getattr(found, "properties", ())}
    kinds = dict.fromkeys(kind for found in classes for kind in getattr(found, "sections", ()))
    in_sections = {entry.name: entry for kind in kinds for entry in properties_of(kind)}
    known = [*single, *in_sections]
    for key, entry in entries.items():
        if key.startswith(PLUGIN_PREFIX) and key not in known:
            fix = suggestion(key, known) or "No class that this job names declares it."
            findings.problem(key, "is no known property", fix, entry.origin)
    for name in (*in_sections, *(name for name in single if name not in TABLE)):
        if not name.startswith(PLUGIN_PREFIX):
            fix = f"Let the class declare it under a name that begins with {PLUGIN_PREFIX}"
            findings.problem(name, "is declared by a class of the job's own", fix)
    for name, declared in in_sections.items():
        if declared.required and name not in entries:
            findings.problem(name, "is required and not set", declared.meaning)
    values = {
        name: _plugin_value(declaration, entries.get(name), around, findings)
        for name, declaration in single.items()
    }
    return values, [read_section(kind, entries, around, findings) for kind in kinds]


def check_unit_properties(plugins: Plugins, values: Properties, findings: Findings) -> None:
    """Report properties that take units from a source if the connector does not have such units."""
    names = asked_of_source(values)
    if not names or plugins.connector is None:
        return
    connector: type[Connector] = load(plugins.connector)
    for name in names:
        if name not in connector.unit_properties:
            what = f"asks for units that {connector.__name__} does not have"
            findings.problem(name, what, "Leave it out.")


def check_plugins(plugins: Plugins, values: Properties, findings: Findings) -> None:
    """Let the classes check the properties, and report their problems.

    Of the built-in classes only the connector checks its properties. The table checks the
    properties of the other built-in classes, whose import takes longer than planning.
    """
    asked = dict.fromkeys(_own(plugins.refs))
    if plugins.connector is not None:
        asked[plugins.connector] = None
    for ref in asked:
        try:
            found, notes = _checked(ref, values)
        except Exception as error:  # noqa: BLE001 - a plug-in's failure is a finding like others
            failure = plugin_failure(f"{ref}.check failed", error)
            findings.problem("", failure.message, failure.fix)
            continue
        for problem in found:
            if findings.is_sound(problem.key):
                findings.problem(problem.key, problem.what, problem.fix, problem.origin)
        for note in notes:
            findings.notice(note.key, note.what, note.fix, note.origin)


def _find(kind: PluginKind, key: str, text: str, findings: Findings) -> ClassRef | None:
    if not text:
        return None
    if key in {DESTINATION, WRITER} and (fix := built_in_advice(key, text)):
        findings.problem(key, f"is {quote(text)}, which is no class", fix)
        return None
    try:
        return resolve(kind, text, _BASES[kind])
    except PluginError as error:
        for problem in error.problems:
            findings.problem(key, problem.what, problem.fix)
        return None


def _own(refs: Iterable[ClassRef]) -> tuple[ClassRef, ...]:
    """Return the classes that are not built in; only these declare their own properties."""
    return tuple(ref for ref in refs if not is_built_in(ref))


def _checked(ref: ClassRef, values: Properties) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return the problems and the warnings of a class."""
    found = load(ref)
    if issubclass(found, Destination):
        return tuple(found.check_properties(values)), ()
    if not issubclass(found, Connector | Extractor | Converter | FileWriter):
        return (), ()
    notes = tuple(found.warnings(values)) if issubclass(found, Connector) else ()
    return tuple(found.check(values)), notes


def _plugin_value(
    declaration: PluginProperty, entry: Entry | None, around: JobReadContext, findings: Findings
) -> object:
    if entry is None:
        if declaration.required:
            findings.problem(declaration.name, "is required and not set", declaration.meaning)
        return declaration.default
    try:
        if declaration.secret:
            return at_entry(around, entry, findings).secret(entry.text.strip())
        return declaration.parse(entry.text.strip())
    except ShapeError as error:
        for what, fix in error.findings:
            findings.problem(declaration.name, what, fix, entry.origin)
    except ValueError as error:
        text = shown(entry, secret=declaration.secret)
        findings.problem(declaration.name, f"is {text}: {error}", declaration.meaning, entry.origin)
    return declaration.default
