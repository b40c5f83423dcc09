"""The query of a derived dataset: its mode, its text, and the settings that contradict it."""

from __future__ import annotations

from collections.abc import Mapping

from dil.config.destinations import DESTINATION
from dil.config.egress import EgressSection, ProgressSection
from dil.config.entry import Entry
from dil.config.event_time import EVENT_COLUMN
from dil.config.findings import Findings
from dil.config.grace import GraceSection
from dil.config.identity import CLASS
from dil.config.output_classes import WRITER
from dil.config.preprocessing import PreprocessingSection
from dil.config.property import names_of
from dil.config.publishing import PUBLISH_MODE
from dil.config.query_inputs import QueryParts, found_inputs
from dil.config.query_text import QueryText, query_text
from dil.config.state import ENABLED
from dil.config.timelabels import (
    CATCHUP,
    CLOSE,
    EVERY,
    FIRST_RUN,
    LABEL_COLUMN,
    SCHEDULE,
    SPLIT,
    UNIT,
    TimelabelsSection,
)
from dil.config.watermarks import ZONE, PlanningSection
from dil.errors import Origin
from dil.model.derived import (
    DEDUPE_COLUMN,
    DEDUPE_KEYS,
    DEDUPE_WITHIN,
    WINDOW_END,
    WINDOW_START,
    DedupeSpec,
    WindowSpec,
)
from dil.model.event_time import EventTimeSpec
from dil.model.job import PublishingSpec, PublishMode, QueryMode, QuerySpec
from dil.model.properties import Properties
from dil.model.section import Section
from dil.sections.conversion import ENCRYPTED, EncryptionSection
from dil.sections.extraction import CsvSection, DumpSection, ExtractionSection
from dil.sections.paging import PagingSection
from dil.sections.parameters import ParametersSection
from dil.sections.query import (
    AGGS,
    FILE,
    FUNCTION,
    INPUTS,
    QUERY_MODE,
    SIZE,
    SLIDE,
    SQL,
    WINDOW_COLUMN,
    WINDOW_KEYS,
    DedupeSection,
    QuerySection,
    WindowSection,
)
from dil.sections.schema import SCHEMA
from dil.sections.secondary import SecondarySection
from dil.sections.source import SourceSection
from dil.spi.registry import built_in_sections

_OF_SOURCES: tuple[type[Section], ...] = (
    SourceSection, PlanningSection, GraceSection, SecondarySection, ProgressSection,
    ParametersSection, PagingSection, ExtractionSection, CsvSection, PreprocessingSection,
    DumpSection, EgressSection,
)  # fmt: skip
_APART = "Let a job of its own leave repeats out, and read its dataset."
_KEPT = frozenset({ZONE, "ms.work.unit.min.records"})
# These settings are about work units, which a query lacks; the rows of a query still have labels.
_LABELS_OF_UNITS = frozenset({SPLIT, CATCHUP, FIRST_RUN, CLOSE})
_SCHEMAS = frozenset(
    {SCHEMA, "ms.source.schema.urn", "ms.target.schema.urn", "ms.schema.cleansing"}
)
_OUTPUT_CLASSES = frozenset({DESTINATION, WRITER})
_MEANT = {
    QueryMode.APPEND: (PublishMode.APPEND, PublishMode.MERGE),
    QueryMode.FULL: (PublishMode.REPLACE,),
    QueryMode.WINDOWED: (PublishMode.APPEND,),
}
_WITHOUT_EVENTS = {
    QueryMode.FULL: (
        f"is set, and {QUERY_MODE}=full reads all rows again each time: a row that is read again "
        "is not late",
        f"Leave it out, or set {QUERY_MODE}=append.",
    ),
    QueryMode.WINDOWED: (
        f"is set, and {QUERY_MODE}=windowed publishes each window once, when it is closed: no row "
        "of it comes late",
        "Leave it out. Windows close by the watermark of the input: set it in the job that reads"
        " the source.",
    ),
}


def refuse_source_properties(entries: Mapping[str, Entry], path: str, findings: Findings) -> None:
    """Report properties of a source, and classes of output, in a job whose inputs are datasets.

    A property that the job file only inherits was not meant for this job, and is ignored.
    """
    sections = (*_OF_SOURCES, *built_in_sections("source"), *built_in_sections("http"))
    names = names_of(*sections) | {CLASS} | _SCHEMAS | _LABELS_OF_UNITS
    for name in sorted((names - _KEPT) | _OUTPUT_CLASSES):
        entry = entries.get(name)
        if entry is None or not _is_own(entry.origin, path):
            continue
        why = "the job reads datasets, and no source"
        fix = f"Leave it out, or leave {INPUTS} out to read a source."
        if name in _SCHEMAS:
            fix = "Leave it out: the query names the columns, and CAST their types."
        elif name in _OUTPUT_CLASSES:
            why = "built-in classes write and publish the rows of a query"
            fix = "Leave it out: publish files, a table, or rows of a database (ms.warehouse.url)."
        elif name in _LABELS_OF_UNITS:
            fix = f"Leave it out: rows of a query have the labels of {LABEL_COLUMN}."
        findings.problem(name, f"has no effect with {INPUTS}: {why}", fix, entry.origin)


def _is_own(origin: Origin, path: str) -> bool:
    return origin.path == path or origin.is_flag


def _query_mode(values: Properties) -> QueryMode | None:
    """Return the mode of a job's query; None for a job that reads a source."""
    section = values.section(QuerySection)
    return QueryMode(section.mode) if section.inputs else None


def query_spec(parts: QueryParts, values: Properties, findings: Findings) -> QuerySpec | None:
    """Return the query of a job; None for a job that reads a source."""
    section, mode = values.section(QuerySection), _query_mode(values)
    if mode is None:
        if INPUTS not in values.explicit:
            names = names_of(QuerySection, WindowSection, DedupeSection)
            fix = f"Leave it out, or set {INPUTS}."
            findings.misplaced(names, f"has no effect without {INPUTS}", fix)
        return None
    windows = _window_spec(values, findings)
    _check_mode(mode, parts, values, findings)
    if windows is None:
        query = query_text(parts, values, findings)
    else:
        query = QueryText(windows.query(section.inputs[0].view))
    is_full = mode is QueryMode.FULL
    return QuerySpec(
        inputs=tuple(found_inputs(section, parts, mode, findings)),
        mode=mode,
        text=query.text,
        function=query.function,
        code=query.code,
        max_blocks=None if is_full else section.max_blocks,
        max_rows=None if is_full else section.max_rows,
        hashes_rows=section.hashes_rows,
        wait_ms=section.wait_ms,
        windows=windows,
        dedupe=_dedupe_spec(parts.publishing, values, mode, findings),
        places=query.places,
        holds_watermark=_overrules_events(values, mode, str(parts.path)),
    )


def _check_mode(mode: QueryMode, parts: QueryParts, values: Properties, findings: Findings) -> None:
    """Refuse what contradicts the mode of a query, and a query without state or labels."""
    inputs, publish_mode = values.section(QuerySection).inputs, parts.publishing.mode
    closed = [f"[{at}]" for at, each in enumerate(inputs) if each.closed]
    if closed and mode is QueryMode.WINDOWED:
        findings.problem(
            INPUTS,
            f"{closed[0]}.closed is true, and {QUERY_MODE}={mode} waits for the watermark of its "
            "input",
            f"Leave it out, or set {QUERY_MODE}=append.",
        )
    if publish_mode not in _MEANT[mode]:
        findings.problem(
            next((each for each in (PUBLISH_MODE, QUERY_MODE) if each in values.explicit), INPUTS),
            f"does not fit: {QUERY_MODE} is {mode}, and rows would be published by {publish_mode}",
            f"Set {PUBLISH_MODE}={' or '.join(_MEANT[mode])}, or leave it out.",
        )
    schedule = next(filter(None, map(values.origin, (SCHEDULE, EVERY, UNIT))), None)
    is_labelled = schedule is not None and _is_own(schedule, str(parts.path))
    if is_labelled and not values.section(TimelabelsSection).column:
        findings.problem(
            LABEL_COLUMN,
            "is not set, and rows of a query have no other time for their timelabel",
            "Name the query's column that has this time.",
            schedule,
        )
    if parts.has_events and mode.reads_whole:
        findings.problem(EVENT_COLUMN, *_WITHOUT_EVENTS[mode])
    if not parts.state.enabled:
        what = "is false, and a query keeps its progress through the inputs in the state"
        findings.problem(ENABLED, what, "Leave it out.")


def own_events(
    events: EventTimeSpec | None, values: Properties, path: str, findings: Findings
) -> EventTimeSpec | None:
    """Return the event-time part of a job; for a query, only from its own file.

    Inherited event-time properties were meant for rows of a source, which have other columns. A run
    that rebuilds the dataset reads all rows again, so none of them is late.
    """
    mode = _query_mode(values)
    if events is None or mode is None:
        return events
    if _overrules_events(values, mode, path):
        what = f"has no effect in this run, which reads all rows again ({QUERY_MODE}=full)"
        findings.hint(
            EVENT_COLUMN, what, "No row of it is late; the next run judges its rows again."
        )
        return None
    origin = values.origin(EVENT_COLUMN)
    return events if origin is not None and _is_own(origin, path) else None


def _overrules_events(values: Properties, mode: QueryMode, path: str) -> bool:
    """Return whether ``-D`` lets this run rebuild the dataset, while other runs judge rows."""
    origin = values.origin(EVENT_COLUMN)
    is_set = origin is not None and _is_own(origin, path)
    return is_set and mode is QueryMode.FULL and values.is_overruled(EVENT_COLUMN, QUERY_MODE)


def _window_spec(values: Properties, findings: Findings) -> WindowSpec | None:
    """Return the windows of a job, None if it has none; problems become findings."""
    section, query = values.section(WindowSection), values.section(QuerySection)
    if query.mode != "windowed":
        fix = f"Leave it out, or set {QUERY_MODE}=windowed."
        findings.misplaced(names_of(WindowSection), "has no effect here", fix)
        return None
    findings.misplaced(
        (SQL, FILE, FUNCTION),
        f"does not go with {QUERY_MODE}=windowed: the windows are the query",
        f"Let another job with {QUERY_MODE}=append choose and change rows, and read its dataset.",
    )
    if len(query.inputs) > 1:
        findings.problem(
            QUERY_MODE,
            f"is windowed, and there are {len(query.inputs)} inputs",
            "Name one: windows are over one dataset.",
        )
    for name, value, fix in (
        (WINDOW_COLUMN, section.column.strip(), "Name the column with the time of a row."),
        (SIZE, section.size_ms, "Write an ISO duration, such as PT1H."),
        (AGGS, section.aggs, 'Write {"total": "sum(amount)"}.'),
    ):
        if not value:
            findings.problem(QUERY_MODE, f"is windowed, and {name} is not set", fix)
    if section.size_ms is not None and (section.slide_ms or 0) > section.size_ms:
        what = f"is longer than {SIZE}: rows between two windows would be in none"
        findings.problem(SLIDE, what, f"Write at most {SIZE}, or leave it out.")
    _refuse_names(section, findings)
    size_ms = section.size_ms or 1
    return WindowSpec(
        section.column.strip(),
        size_ms,
        section.slide_ms or size_ms,
        section.keys,
        tuple(section.aggs.items()),
    )


def _refuse_names(section: WindowSection, findings: Findings) -> None:
    """Refuse two columns of one name in the rows of windows."""
    taken: dict[str, str] = {
        WINDOW_START: "the begin of the window",
        WINDOW_END: "the end of the window",
    }
    for key, names in ((WINDOW_KEYS, section.keys), (AGGS, tuple(section.aggs))):
        for name in names:
            if name.lower() in taken:
                what = f'has the column "{name}", which is {taken[name.lower()]}'
                findings.problem(key, what, "Give it another name.")
            taken[name.lower()] = f"one of {key}"


def _dedupe_spec(
    publishing: PublishingSpec, values: Properties, mode: QueryMode, findings: Findings
) -> DedupeSpec | None:
    """Return the rule for repeats, None if all rows are published; problems become findings."""
    section = values.section(DedupeSection)
    if not section.keys:
        what, fix = f"has no effect without {DEDUPE_KEYS}", f"Set {DEDUPE_KEYS} as well."
        findings.misplaced(names_of(DedupeSection), what, fix)
        return None
    if mode is QueryMode.WINDOWED:
        findings.problem(DEDUPE_KEYS, f"does not go with {QUERY_MODE}={mode}", _APART)
    if publishing.mode is PublishMode.MERGE:
        findings.problem(
            DEDUPE_KEYS,
            "does not go with ms.publish.mode=merge, which has keys of its own",
            "Leave one of the two out.",
        )
    if not publishing.keeps_files:
        findings.problem(
            DEDUPE_KEYS,
            f"looks for earlier rows among published files, and {publishing.place_key} publishes "
            "elsewhere",
            _APART,
        )
    for name, value, fix in (
        (DEDUPE_COLUMN, section.column.strip(), "Name the column with the time of a row."),
        (DEDUPE_WITHIN, section.within_ms, "Write an ISO duration, such as PT1H."),
    ):
        if value in ("", None) and findings.is_sound(name):
            findings.problem(DEDUPE_KEYS, f"is set, and {name} is not", fix)
    encrypted = {path.split(".")[0] for path in values.section(EncryptionSection).paths}
    for name in (*section.keys, section.column.strip()):
        if name in encrypted:
            what = f'names "{name}", which {ENCRYPTED} encrypts: it cannot be compared'
            findings.problem(
                DEDUPE_KEYS if name in section.keys else DEDUPE_COLUMN, what, "Name another column."
            )
    return DedupeSpec(section.keys, section.column.strip(), section.within_ms or 0)
