"""The query of a derived dataset: its mode, its text, and the settings that contradict it."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from dil.config.dedupe import dedupe_spec
from dil.config.destinations import DESTINATION
from dil.config.egress import EgressSection, ProgressSection
from dil.config.entry import Entry
from dil.config.event_time import COLUMN
from dil.config.findings import Findings
from dil.config.grace import GraceSection
from dil.config.identity import CLASS
from dil.config.inheritance import TrustedUsers
from dil.config.output_classes import WRITER
from dil.config.preprocessing import PreprocessingSection
from dil.config.property import names_of
from dil.config.publishing import MODE as PUBLISH_MODE
from dil.config.query_inputs import QueryParts, found_inputs
from dil.config.read_context import path_of
from dil.config.state import ENABLED
from dil.config.timelabels import (
    CATCHUP,
    CLOSE,
    EVERY,
    FIRST_RUN,
    SCHEDULE,
    SPLIT,
    UNIT,
    TimelabelsSection,
)
from dil.config.timelabels import COLUMN as LABEL_COLUMN
from dil.config.watermarks import ZONE, PlanningSection
from dil.config.windows import window_spec
from dil.errors import Origin
from dil.model.event_time import EventTimeSpec
from dil.model.job import ClassRef, PublishMode, QueryMode, QuerySpec
from dil.model.properties import Properties
from dil.model.section import Section
from dil.model.suggestions import nearest
from dil.sections.dedupe import DedupeSection
from dil.sections.extraction import CsvSection, DumpSection, ExtractionSection
from dil.sections.paging import PagingSection
from dil.sections.parameters import ParametersSection
from dil.sections.query import FILE, FUNCTION, INPUTS, MODE, SQL, QuerySection
from dil.sections.schema import SCHEMA
from dil.sections.secondary import SecondarySection
from dil.sections.source import SourceSection
from dil.sections.windows import WindowSection
from dil.spi.registry import built_in_sections
from dil.storage.locations import local_path

_OF_SOURCES: tuple[type[Section], ...] = (
    SourceSection, PlanningSection, GraceSection, SecondarySection, ProgressSection,
    ParametersSection, PagingSection, ExtractionSection, CsvSection, PreprocessingSection,
    DumpSection, EgressSection,
)  # fmt: skip
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
        f"is set, and {MODE}=full reads all rows again each time: a row that is read again is not"
        " late",
        f"Leave it out, or set {MODE}=append.",
    ),
    QueryMode.WINDOWED: (
        f"is set, and {MODE}=windowed publishes each window once, when it is closed: no row of it"
        " comes late",
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
        if entry is not None and _is_own(entry.origin, path):
            why = "the job reads datasets, and no source"
            if name in _OUTPUT_CLASSES:
                why = "built-in classes write and publish the rows of a query"
            what = f"has no effect with {INPUTS}: {why}"
            findings.problem(name, what, _advice(name), entry.origin)


def _advice(name: str) -> str:
    if name in _SCHEMAS:
        return "Leave it out: the query names the columns, and CAST their types."
    if name in _OUTPUT_CLASSES:
        return "Leave it out: publish files, a table, or rows of a database (ms.warehouse.url)."
    if name in _LABELS_OF_UNITS:
        return f"Leave it out: rows of a query have the labels of {LABEL_COLUMN}."
    return f"Leave it out, or leave {INPUTS} out to read a source."


def _is_own(origin: Origin, path: str) -> bool:
    return origin.path == path or origin.is_flag


def query_mode(values: Properties) -> QueryMode | None:
    """Return the mode of a job's query; None for a job that reads a source."""
    section = values.section(QuerySection)
    if not section.inputs:
        return None
    return QueryMode(section.mode)


def query_spec(parts: QueryParts, values: Properties, findings: Findings) -> QuerySpec | None:
    """Return the query of a job; None for a job that reads a source."""
    section, mode = values.section(QuerySection), query_mode(values)
    if mode is None:
        if INPUTS not in values.explicit:
            _note_unused(values, findings)
        return None
    windows = window_spec(values, findings)
    closed = [f"[{at}]" for at, each in enumerate(section.inputs) if each.closed]
    if closed and mode is QueryMode.WINDOWED:
        findings.problem(
            INPUTS,
            f"{closed[0]}.closed is true, and {MODE}={mode} waits for the watermark of its input",
            f"Leave it out, or set {MODE}=append.",
        )
    if parts.publishing.mode not in _MEANT[mode]:
        words = " or ".join(_MEANT[mode])
        key = next((each for each in (PUBLISH_MODE, MODE) if each in values.explicit), INPUTS)
        findings.problem(
            key,
            f"does not fit: {MODE} is {mode}, and rows would be published by "
            f"{parts.publishing.mode}",
            f"Set {PUBLISH_MODE}={words}, or leave it out.",
        )
    _check_labels(parts, values, findings)
    if parts.has_events and mode.reads_whole:
        findings.problem(COLUMN, *_WITHOUT_EVENTS[mode])
    if not parts.state.enabled:
        findings.problem(
            ENABLED,
            "is false, and a query keeps its progress through the inputs in the state",
            "Leave it out.",
        )
    if windows is None:
        text, function, code = _query(section, parts, values, findings)
        places = tuple(_places(text, section, parts)) if text else ()
    else:
        places = ()
        text, function, code = windows.query(section.inputs[0].view), None, ""
    return QuerySpec(
        tuple(found_inputs(section, parts, mode, findings)),
        mode,
        text,
        function,
        code,
        None if mode is QueryMode.FULL else section.max_blocks,
        None if mode is QueryMode.FULL else section.max_rows,
        section.hashes_rows,
        section.wait_ms,
        windows,
        dedupe_spec(parts.publishing, values, mode, findings),
        places,
        _overrules_events(values, mode, str(parts.path)),
    )


def own_events(
    events: EventTimeSpec | None, values: Properties, path: str, findings: Findings
) -> EventTimeSpec | None:
    """Return the event-time part of a job; for a query, only from its own file.

    Inherited event-time properties were meant for rows of a source, which have other columns. A run
    that rebuilds the dataset reads all rows again, so none of them is late.
    """
    mode = query_mode(values)
    if events is None or mode is None:
        return events
    if _overrules_events(values, mode, path):
        what = f"has no effect in this run, which reads all rows again ({MODE}=full)"
        findings.hint(COLUMN, what, "No row of it is late; the next run judges its rows again.")
        return None
    origin = values.origin(COLUMN)
    return events if origin is not None and _is_own(origin, path) else None


def _overrules_events(values: Properties, mode: QueryMode, path: str) -> bool:
    """Return whether ``-D`` lets this run rebuild the dataset, while other runs judge rows."""
    origin = values.origin(COLUMN)
    is_set = origin is not None and _is_own(origin, path)
    return is_set and mode is QueryMode.FULL and values.is_overruled(COLUMN, MODE)


def _check_labels(parts: QueryParts, values: Properties, findings: Findings) -> None:
    """Refuse a schedule in the job file itself if no column gives the rows their labels."""
    labels = values.section(TimelabelsSection)
    origin = next(filter(None, map(values.origin, (SCHEDULE, EVERY, UNIT))), None)
    if origin is None or labels.column or not _is_own(origin, str(parts.path)):
        return
    findings.problem(
        LABEL_COLUMN,
        "is not set, and rows of a query have no other time for their timelabel",
        "Name the query's column that has this time.",
        origin,
    )


def _note_unused(values: Properties, findings: Findings) -> None:
    names = names_of(QuerySection, WindowSection, DedupeSection)
    for name in sorted(names & values.explicit):
        findings.problem(name, f"has no effect without {INPUTS}", f"Leave it out, or set {INPUTS}.")


def _query(
    section: QuerySection, parts: QueryParts, values: Properties, findings: Findings
) -> tuple[str, ClassRef | None, str]:
    """Return the text of the query, or its function and the hash of the function's module."""
    given = [name for name in (SQL, FILE, FUNCTION) if name in values.explicit]
    if len(given) != 1:
        what = (
            f"is set, and {' and '.join(given[1:])} too" if given else "needs a query, and has none"
        )
        findings.problem(
            given[0] if given else INPUTS,
            what,
            f"Set exactly one of {SQL}, {FILE} and {FUNCTION}.",
        )
        return "", None, ""
    if section.file:
        return _text_of_file(section.file, parts, findings), None, ""
    if section.function:
        function = function_ref(section.function)
        if function is None:
            findings.problem(
                FUNCTION,
                f'is "{section.function}", which is not of the form module:function',
                "For example queries:big for def big(inputs) in queries.py beside the job file.",
            )
            return "", None, ""
        return "", function, _code_of(function, findings)
    return section.sql, None, ""


def _places(text: str, section: QuerySection, parts: QueryParts) -> Iterator[tuple[int, str]]:
    """Yield the offset of each line in the SQL of a job, with the line's file and number."""
    if section.file:
        path = local_path(section.file, parts.folder)
        starts = [0, *(found.end() for found in re.finditer("\n", text))]
        yield from ((start, f"{path}:{number}") for number, start in enumerate(starts, 1))
    elif parts.sql is not None:
        starts = [0, *parts.sql.breaks]
        yield from ((start, str(parts.sql.origin_at(start))) for start in starts)


def _text_of_file(text: str, parts: QueryParts, findings: Findings) -> str:
    named = path_of(text, FILE, parts.folder, findings)
    if not named:
        return ""
    path = Path(named)
    try:
        found = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        findings.problem(
            FILE,
            f"names {path}, which cannot be read: {reason}",
            "A relative path starts at the folder of the job file.",
        )
        return ""
    # A query can call everything that Spark can reach, so it counts as a class of the job's own.
    if doubt := TrustedUsers(parts.path).doubt(path, in_project=True):
        findings.problem(
            FILE,
            f"would run the query in {path}, which {doubt}",
            "Move it to a folder that other users cannot write to.",
        )
    if not found.strip():
        findings.problem(FILE, f"names {path}, which is empty", "Write the query into it.")
    return found


def function_ref(text: str) -> ClassRef | None:
    """Return the module and the name of a function; None if the text names no function."""
    module, _, name = text.partition(":") if ":" in text else text.rpartition(".")
    is_named = name.strip().isidentifier() and all(map(str.isidentifier, module.strip().split(".")))
    return ClassRef(module.strip(), name.strip()) if is_named else None


def _code_of(function: ClassRef, findings: Findings) -> str:
    """Return the SHA-256 of the file of a function's module; the module is not imported."""
    try:
        found = find_spec(function.module)
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        findings.problem(
            FUNCTION,
            f'is "{function}", and there is no module {function.module}',
            "Modules are looked for in the installed packages, in the folder of the job file and in"
            " ms.plugin.path.",
        )
        return ""
    content = Path(found.origin).read_bytes()
    try:
        names = list(dict.fromkeys(_names(ast.parse(content, found.origin))))
    except (SyntaxError, ValueError) as error:
        findings.problem(FUNCTION, f'is "{function}", which is no Python: {error}', "Correct it.")
        return ""
    if function.qualname not in names and "*" not in names:
        findings.problem(
            FUNCTION,
            f'is "{function}", and {found.origin} has no function {function.qualname}',
            nearest(function.qualname, names, f"It has: {', '.join(names) or 'none'}."),
        )
    return hashlib.sha256(content).hexdigest()


def _names(block: ast.AST) -> Iterator[str]:
    """Yield the names that a module may define, also in blocks such as ``if`` and ``try``.

    A star import yields ``*``: only the imported module says which names it has.
    """
    for node in ast.iter_child_nodes(block):
        match node:
            case ast.FunctionDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (each.asname or each.name for each in node.names)
            case ast.Assign():
                targets = (inner for target in node.targets for inner in ast.walk(target))
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.ClassDef() | ast.AsyncFunctionDef():
                pass  # the names inside are not the module's
            case _:
                yield from _names(node)
