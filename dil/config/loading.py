"""From a job file to a job: read, interpolate, evaluate, check, build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from dil.config import (
    column_checks,
    conversion,
    egress,
    extraction,
    preprocessing,
    requests,
    text_checks,
)
from dil.config.canonical import canonical
from dil.config.destinations import check_rows_apart
from dil.config.digest import digest
from dil.config.entry import Entry
from dil.config.event_time import EventTimeSection, event_time_section
from dil.config.findings import Findings
from dil.config.grace import check_measured
from dil.config.identity import NAME, PLUGIN_PATH, JobSection
from dil.config.inheritance import TrustedUsers, may_import
from dil.config.interpolation import interpolate, references
from dil.config.late_rows import job_events, uses_side_table, with_closing
from dil.config.legacy_digest import legacy_digest
from dil.config.output_classes import writer_spec
from dil.config.parts import JobParts
from dil.config.planning import PLANNING_NAMES, planning_section
from dil.config.plugins import (
    check_plugins,
    check_unit_properties,
    find_plugins,
    own_classes,
    read_plugin_properties,
)
from dil.config.property import names_of
from dil.config.publishing_spec import publishing_spec
from dil.config.query import own_events, query_spec, refuse_source_properties
from dil.config.query_inputs import LoadInput, QueryParts
from dil.config.read_context import JobFileLocation, JobReadContext
from dil.config.reader import read_job, with_overrides
from dil.config.rereading import check_rereading
from dil.config.running import running_section
from dil.config.schema_files import with_schema_files
from dil.config.sections import evaluate, read_section, read_zone, report_missing
from dil.config.state import state_section
from dil.config.streaming import stream_spec
from dil.config.table import ALIASES, SECTIONS
from dil.config.templates import with_templates
from dil.config.writing import check_writing, writing_spec
from dil.errors import ConfigError, Origin, Problem
from dil.model.event_time import EventTimeSpec
from dil.model.job import Job, KeySpec, PlanningSpec, Plugins, SourceSpec
from dil.model.messages import suggestion
from dil.model.properties import Properties
from dil.model.secondary import SecondarySpec
from dil.model.secret import Secret
from dil.model.section import Section
from dil.secrets import SecretResolver
from dil.sections.query import INPUTS, SQL
from dil.sections.secondary import SecondarySection
from dil.sections.source import SourceSection
from dil.spi.registry import join_import_path
from dil.storage.locations import PathError, local_path


class Loaded(Struct, frozen=True):
    """A job, and the notices about its configuration.

    ``infos`` are notices that ask for nothing, such as the names of inherited files.
    """

    job: Job
    notices: tuple[Problem, ...]
    infos: tuple[Problem, ...] = ()


def load(
    path: str | Path,
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str],
    lenient: bool = False,
    secrets: bool = True,
    as_input: bool = False,
) -> Loaded:
    """Read, check and build a job; runs on the driver, and its only I/O is reading files.

    If the job has classes of its own, this appends the job file's folder and the folders of
    ``ms.plugin.path`` to the import path of this process (rule F13).

    Args:
        path: The job file; messages name it as given here.
        overrides: ``-D`` settings, which win over everything.
        environ: The environment, for ``${env:NAME}`` and ``env:NAME``.
        lenient: Whether unknown ``ms.`` keys are notices, not problems.
        secrets: Whether the secrets are needed. If not, a secret that cannot be read is empty and
            gives a notice: planning and state commands do not connect to the source.
        as_input: Whether another job reads this job's dataset. If true, the inputs of this job are
            not looked up.

    Raises:
        ConfigError: the job has problems; the error has all of them, sorted by file and line.
    """
    findings = Findings()
    found = read_job(str(path), findings)
    if not found:
        findings.raise_problems()  # Nothing was read, so missing required keys are no news.
    settings = overrides or {}
    written = with_templates(
        with_overrides(found, settings), str(path), settings, environ, findings
    )
    interpolated = interpolate(written, environ=environ, settings=settings, findings=findings)
    text_checks.refuse_lone_surrogates(interpolated, findings)
    place = JobFileLocation(str(path), Path(path).resolve().parent, environ)
    used = references(written)
    entries = canonical(interpolated, findings, lenient=lenient, used=used)
    entries = with_schema_files(entries, place, findings)
    blanks = {key: entry for key, entry in interpolated.items() if not entry.text.strip()}

    def load_input(path: Path) -> Job:
        """Load the job of an input, without the secrets of its source."""
        return load(path, environ=environ, secrets=False, as_input=True).job

    job = _Builder(
        entries, blanks, place, findings, secrets, None if as_input else load_input
    ).job()
    if unused := [name for name in findings.without_effect if name not in used]:
        what = "has properties without effect here; dil explain NAME says what to use instead: "
        findings.information(f"{what}{', '.join(unused)}", Origin(str(path)))
    findings.note_plain_secrets()
    return Loaded(job, findings.sorted_notices(), tuple(findings.infos))


def peek_name(
    path: str | Path,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Return ``job.name`` of a job file that may be wrong; empty text if it cannot be known.

    Never raises, so that the report of a failure can name the job.
    """
    settings = overrides or {}
    try:
        entries = read_job(str(path), Findings())
    except (ConfigError, OSError):
        entries = {}
    written = with_templates(
        with_overrides(entries, settings), str(path), settings, environ or {}, Findings()
    )
    if NAME not in written:
        return ""
    findings = Findings()
    found = interpolate(
        written, environ=environ or {}, settings=settings, findings=findings, keys=[NAME]
    )
    return "" if findings.problems else found[NAME].text.strip()


def planning_spec(properties: Mapping[str, str]) -> tuple[PlanningSpec, tuple[Problem, ...]]:
    """Return the planning part of bare properties, and the notices about them.

    Keys of other packages are ignored.

    Raises:
        ConfigError: the planning properties have problems; the error has all of them.
    """
    findings = Findings()
    origin = Origin("properties")
    written = {key: Entry(key, text, origin) for key, text in properties.items()}
    interpolated = interpolate(
        written,
        environ={},
        settings={},
        findings=findings,
        keys=[key for key in written if ALIASES.get(key, key) in PLANNING_NAMES],
    )
    text_checks.refuse_lone_surrogates(interpolated, findings)
    entries = canonical(interpolated, findings, lenient=False)
    findings.origins = {key: entry.origin for key, entry in entries.items()}
    plain = JobReadContext(SecretResolver({}, Path()), "UTC")
    around = replace(plain, zone=read_zone(entries, plain, findings))
    sections = [read_section(each, entries, around, findings) for each in SECTIONS]
    spec = planning_section(_properties({}, entries, sections), findings)
    findings.raise_problems()
    return spec, findings.sorted_notices()


def event_time_spec(properties: Mapping[str, str]) -> EventTimeSpec:
    """Return the event-time part of bare properties; keys of other packages are ignored.

    Raises:
        ConfigError: ``ms.event.*`` or ``ms.late.*`` have problems; the error has all of them.
    """
    findings = Findings()
    known = names_of(EventTimeSection)
    entries: dict[str, Entry] = {}
    for key, text in properties.items():
        if key in known and text.strip():
            entries[key] = Entry(key, text, Origin("properties"))
        elif key not in known and key.startswith(("ms.event.", "ms.late.")):
            findings.problem(key, "is unknown", suggestion(key, known), Origin("properties"))
    findings.origins = {key: entry.origin for key, entry in entries.items()}
    around = JobReadContext(SecretResolver({}, Path()), "UTC")
    section = read_section(EventTimeSection, entries, around, findings)
    spec = event_time_section(_properties({}, entries, [section]), findings)
    findings.raise_problems()
    return spec


def _properties(
    values: Mapping[str, object], entries: Mapping[str, Entry], sections: Iterable[Section]
) -> Properties:
    return Properties(values, {key: entry.origin for key, entry in entries.items()}, sections)


class _Builder(Struct):
    """The steps that build a job from entries; all steps add to the same findings."""

    entries: Mapping[str, Entry]
    blanks: Mapping[str, Entry]
    place: JobFileLocation
    findings: Findings
    secrets: bool
    load_input: LoadInput | None

    def job(self) -> Job:
        findings, entries = self.findings, self.entries
        findings.origins = {key: entry.origin for key, entry in entries.items()}
        text_checks.refuse_control_characters(entries, findings)
        report_missing(entries, self.blanks, self.place.path, findings)
        if INPUTS in entries:
            refuse_source_properties(entries, self.place.path, findings)
        sections, around = evaluate(entries, self.place, findings, secrets=self.secrets)
        base = _properties({}, entries, sections)
        folders = self._plugin_folders(base)
        join_import_path(folders)
        plugins = find_plugins(base, findings)
        extra, more = read_plugin_properties(plugins, entries, around, findings)
        properties = _properties(extra, entries, [*sections, *more])
        check_unit_properties(plugins, properties, findings)
        check_plugins(plugins, properties, findings)
        job = self._checked(properties, plugins, folders, around)
        passwords = tuple(map(Secret, around.resolver.passwords))
        return replace(job, keys=KeySpec(passwords, around.resolver.strong))

    def _checked(
        self,
        values: Properties,
        plugins: Plugins,
        plugin_folders: tuple[str, ...],
        around: JobReadContext,
    ) -> Job:
        """Build the job, and check its properties with each other; raise if there are problems."""
        findings, folder, path = self.findings, self.place.folder, self.place.path
        state = state_section(values, folder, findings)
        planning = with_closing(planning_section(values, findings), state, values, findings)
        labels = planning.timelabel
        publishing = publishing_spec(values, self.entries, folder, plugins, labels, findings)
        writing = writing_spec(values, writer_spec(plugins, publishing, values, findings))
        running = running_section(values, plugin_folders, findings)
        parts = JobParts(planning, writing, publishing, state, running, plugins.converters)
        audit = egress.audit_section(values, folder, findings)
        self._check(parts, plugins, values)
        events = own_events(job_events(parts, values, findings), values, path, findings)
        check_measured(parts, findings, has_events=events is not None)
        is_beside = uses_side_table(parts, findings)
        is_beside |= events is not None and events.late_action == "side_table"
        publishing = replace(publishing, has_side_table=is_beside)
        name = values.section(JobSection).name
        query_parts = QueryParts(
            name,
            Path(path),
            publishing,
            state,
            around,
            self.load_input,
            self.entries.get(SQL),
            has_events=events is not None,
        )
        query = query_spec(query_parts, values, findings)
        stream = stream_spec(parts, None if query is None else query.mode, values, folder, findings)
        self._raise_problems()
        if plugins.connector is None or plugins.extractor is None:
            # Both are required, so a missing one was a problem above; this is for the type checker.
            raise ConfigError.single(
                "source.class", "and ms.extractor.class are required", "Set both."
            )
        source, secondary = values.section(SourceSection), values.section(SecondarySection)
        current = digest(self.entries, publishing, writing)
        return Job(
            name=name,
            path=path,
            digest=current,
            known_digests=(current, legacy_digest(self.entries, publishing, writing)),
            properties=values,
            planning=planning,
            source=SourceSpec(plugins.connector, source.uri, source.username, source.password),
            extraction=extraction.extraction_spec(values, plugins.extractor, plugins.preprocessors),
            conversion=conversion.conversion_spec(values, plugins.converters),
            writing=writing,
            publishing=publishing,
            running=running,
            audit=audit,
            state=state,
            secondary=SecondarySpec(secondary.inputs, secondary.parses_json, secondary.max_bytes),
            events=events,
            query=query,
            stream=stream,
        )

    def _check(self, parts: JobParts, plugins: Plugins, values: Properties) -> None:
        """Check the properties of all subjects with each other.

        A check leaves out what depends on a property that has a problem by then. So parameters are
        checked after paging and secondary input, and columns after CSV, writing and conversion.
        """
        findings, folder, planning = self.findings, self.place.folder, parts.planning
        extraction.check_data_field(values, plugins.extractor, findings)
        text_checks.note_plain_credentials(values, self.entries, findings)
        text_checks.check_names_and_hosts(values, findings)
        requests.check_paging(values, plugins, findings)
        egress.check_egress(values, findings)
        requests.check_secondary_input(values, folder, findings)
        requests.check_parameters(values, planning, findings)
        conversion.check_rows(values, planning, findings)
        conversion.check_sources(values, findings)
        text_checks.check_patterns(values, findings)
        extraction.check_csv(values, plugins.extractor, findings)
        preprocessing.check_preprocessors(plugins.preprocessors, values, findings)
        extraction.check_dump(values, findings)
        check_writing(values, parts.publishing.final_dir, findings)
        check_rows_apart(values, findings)
        conversion.check_contract(values, parts.state, findings)
        conversion.check_conversion(values, plugins.converters, findings)
        column_checks.check_columns(values, plugins, findings)
        column_checks.check_json_columns(values, plugins, findings)
        check_rereading(parts, values, findings)

    def _raise_problems(self) -> None:
        if self.findings.problems:
            # Imported here: a job without problems does not need it.
            from dil.config.locating import located

            # Notices stay at their key's line: looking inside a value takes longer than planning.
            found = self.findings.problems
            self.findings.problems = [located(problem, self.entries) for problem in found]
            self.findings.raise_problems()

    def _plugin_folders(self, properties: Properties) -> tuple[str, ...]:
        """Return the folders of the job's own classes; empty if it has none."""
        keys = list(own_classes(properties))
        found = {self.place.folder: keys[0]} if keys else {}
        for text in properties.section(JobSection).plugin_path:
            try:
                folder = local_path(text, self.place.folder)
            except PathError as error:
                self.findings.problem(PLUGIN_PATH, str(error), "Use a local folder.")
                continue
            if not folder.is_dir():
                self.findings.problem(
                    PLUGIN_PATH,
                    f"names {folder}, which is no folder",
                    "A relative path starts at the folder of the job file.",
                )
            found.setdefault(folder, PLUGIN_PATH)
        if not keys:
            return ()
        owners = TrustedUsers(Path(self.place.path))
        for folder, key in found.items():
            if folder.is_dir() and not may_import(folder, key, owners, self.findings):
                self._raise_problems()  # before anything is imported
        return tuple(map(str, found))
