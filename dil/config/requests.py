"""Checks of the parameters, the secondary input and the paging of requests.

See docs/secondary-input.md, docs/paging.md, rules C32 and G38.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from dil.config.egress import COMMIT, progress_key
from dil.config.findings import Findings
from dil.config.identity import JobSection
from dil.config.planning import members_of_source
from dil.config.watermarks import WATERMARK, PlanningSection
from dil.model.job import PlanningSpec, Plugins
from dil.model.json import JsonValue, as_text
from dil.model.properties import Properties
from dil.model.settings import Pagination, Parameter, flat_parameters
from dil.model.suggestions import nearest, quote
from dil.sections.conversion import DERIVED, DerivedSection
from dil.sections.file_systems import FileSystemsSection
from dil.sections.http import BODY
from dil.sections.paging import PAGES, SESSION, PagingSection
from dil.sections.parameters import KEY as PARAMETERS
from dil.sections.parameters import ParametersSection
from dil.sections.secondary import KEY as SECONDARY
from dil.sections.secondary import SecondarySection
from dil.sections.source import STATEMENT, URI, DatabaseSection, SourceSection
from dil.spi.converter import Converter
from dil.spi.registry import PluginKind, load, short_name
from dil.storage.locations import PathError, any_path
from dil.text.variables import placeholders

# Connectors that take whole files as payload.
_TAKE_FILES = frozenset({"s3", "sftp"})
_GIVE_SESSION = 'Give its path in the responses: ms.session.key.field={"name": "its path"}.'
_GIVE_PAGE = 'Give the first start, size and number: ms.pagination={"initialvalues": [0, 100, 1]}.'
_FORMATS = ("datetime", "epoc-second", "epoch-second", "epoch-milli")
_ENDS = ("low", "high", "last")
_VARIABLE = re.compile(r"\{\{([^{}]+)\}\}")
# Finds at least the comments of a statement, in all dialects: variables in a comment need no value.
_SQL_COMMENTS = re.compile(r"/\*.*\*/[^\n]*|(?:--|#)[^\n]*", re.DOTALL)
# The properties that give variables their names; if one of them is wrong, no name can be checked.
_GIVERS = (PARAMETERS, WATERMARK, SECONDARY)
_PAGE_TYPES = frozenset({"pagestart", "pagesize", "pageno"})


@dataclass(frozen=True, slots=True)
class _Use:
    """A text in which variables are replaced; ``is_vital``: the text is useless without them."""

    key: str
    text: str
    is_vital: bool = False


def check_parameters(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Check watermark parameters, references of parameters to themselves, and all variables."""
    if not findings.is_sound(*_GIVERS):
        return
    secondary = values.section(SecondarySection)
    units = _members(planning, values, secondary.variables)
    _check_watermarks(values, planning, units, findings)
    overlaid = _overlaid(units)
    _check_page_values(values, overlaid, findings)
    _check_self_references(values, overlaid, findings)
    of_units = {name for unit in units for name in unit}
    known = of_units | {
        parameter.name for parameter in values.section(ParametersSection).parameters
    }
    is_readable = findings.is_sound(STATEMENT)  # else the connector has reported the statement
    for use in _uses(values):
        for name in _missing(use, known) if use.key != STATEMENT or is_readable else ():
            report = findings.problem if use.is_vital else findings.notice
            report(
                use.key,
                f"uses {{{{{name}}}}}, which nothing gives a value",
                nearest(name, known, "Declare it in ms.parameters, or as a unit."),
            )
    # Authentication fields are in no signature: a walk from an old value would be resumed.
    own = _overlaid(_members(planning, values, secondary.fields_of("activation")))
    session = values.section(PagingSection).session
    for name in placeholders(session.init_value or "") if session else ():
        if name not in own:
            findings.problem(
                SESSION,
                f"uses {{{{{name}}}}} in initValue, which is not a member of every unit",
                nearest(
                    name, own, "Declare it in each unit, or as a field of an activation input."
                ),
            )


def all_parameters(values: Properties) -> Iterator[Parameter]:
    """Yield the declared parameters and the parameters inside them."""
    return flat_parameters(values.section(ParametersSection).parameters)


def sent_watermarks(values: Properties, planning: PlanningSpec) -> Iterator[Parameter]:
    """Yield the watermark parameters that are sent to the source."""
    given = values.section(SecondarySection).variables
    overlaid = _overlaid(_members(planning, values, given))
    used = used_variables(values)
    for parameter in all_parameters(values):
        is_of_range = parameter.type == "watermark" and parameter.name not in overlaid
        if is_of_range and not _is_hidden(parameter, used):
            yield parameter


def sends_low_watermark(values: Properties, planning: PlanningSpec) -> bool:
    """Return whether requests send the low watermark to the source."""
    return any(as_text(each.value).lower() == "low" for each in sent_watermarks(values, planning))


def _is_hidden(parameter: Parameter, used: Container[str]) -> bool:
    """Return whether a parameter is only for other texts, and none of them uses it."""
    return parameter.name.startswith("tmp") and parameter.name not in used


def used_variables(values: Properties) -> set[str]:
    """Return the names of all variables that a text of the job uses."""
    return {name for use in _uses(values) for name in placeholders(use.text)}


def _members(
    planning: PlanningSpec, values: Properties, given: frozenset[str]
) -> tuple[frozenset[str], ...]:
    """Return, for each unit, the names of its members and of the given secondary input."""
    if planning.units is None:  # activation rows are secondary input, so ``given`` has their fields
        return (given | members_of_source(values),)
    return tuple(given.union(json.loads(unit)) for unit in planning.units)


def _overlaid(units: tuple[frozenset[str], ...]) -> frozenset[str]:
    """Return the names that are members of every unit: a parameter of such a name never counts."""
    return frozenset.intersection(*units) if units else frozenset()


def _check_watermarks(
    values: Properties,
    planning: PlanningSpec,
    units: tuple[frozenset[str], ...],
    findings: Findings,
) -> None:
    declared = _Declared.of(values, planning)
    # A unit's value replaces the parameter of its name (rule G32), so that parameter needs no
    # check.
    overlaid = _overlaid(units)
    for parameter in values.section(ParametersSection).parameters:
        if parameter.name not in overlaid:
            for each in flat_parameters([parameter]):
                if each.type == "watermark":
                    _check_name(each, declared, units, findings)
                    _check_form(each, findings)


@dataclass(frozen=True, slots=True)
class _Declared:
    """The names of the watermarks that a job declares, empty text for none."""

    dated: str
    unit: str

    @classmethod
    def of(cls, values: Properties, planning: PlanningSpec) -> _Declared:
        marks = values.section(PlanningSection).marks
        has_units = marks.has_units or planning.units is None
        return cls(
            planning.datetime_name if marks.is_dated else "",
            planning.unit_name if has_units else "",
        )


def _check_name(
    parameter: Parameter,
    declared: _Declared,
    units: tuple[frozenset[str], ...],
    findings: Findings,
) -> None:
    """Check the watermark that a parameter names; a job has one of type datetime (rule G35)."""
    name, where = parameter.watermark, f'"{parameter.name}"'
    if not name or name == declared.dated:
        return
    if name == declared.unit:
        members = sorted({member for unit in units for member in unit}) or [name]
        variables = " or ".join(f"{{{{{member}}}}}" for member in members)
        findings.problem(
            PARAMETERS,
            f"{where} is of type watermark, and {name} is a unit watermark",
            f'Write {variables} in a text, such as "value":"{{{{{members[0]}}}}}" in a '
            "parameter of type list.",
        )
    elif declared.dated:
        findings.notice(
            PARAMETERS,
            f'{where} names the watermark "{name}", which is not declared; "{declared.dated}" is '
            "used, the only watermark of type datetime",
            f'Write "watermark":"{declared.dated}".',
        )
    else:
        findings.notice(
            PARAMETERS,
            f'{where} names the watermark "{name}", and ms.watermark declares none of type '
            "datetime: the range is 2019-01-01 to now",
            f'Declare "{name}" in ms.watermark, with its range.',
        )


def _check_form(parameter: Parameter, findings: Findings) -> None:
    """Report an unknown value or format, with the default that takes its place."""
    where, value = f'"{parameter.name}"', as_text(parameter.value)
    if value.lower() not in _ENDS:
        findings.notice(
            PARAMETERS,
            f"{where} has neither low, high nor last as value; high is used",
            nearest(value, _ENDS, 'Write "value":"low", "value":"high" or "value":"last".'),
        )
    if parameter.format and parameter.format not in _FORMATS:
        findings.notice(
            PARAMETERS,
            f"{where} has the unknown format {quote(parameter.format)}; epoch milliseconds are "
            "sent",
            nearest(parameter.format, _FORMATS, f"Known formats: {', '.join(_FORMATS)}."),
        )
    elif parameter.pattern and parameter.format != "datetime":
        findings.notice(
            PARAMETERS,
            f"{where} has a pattern, which only format datetime reads",
            'Write "format":"datetime", or remove the pattern.',
        )


def _check_page_values(values: Properties, overlaid: frozenset[str], findings: Findings) -> None:
    """Report parameters that get their value from the previous page, if no page gives a value."""
    if not findings.is_sound(PAGES, SESSION):
        return
    lacking = _page_types_without_value(values)
    for parameter in values.section(ParametersSection).parameters:
        for each in () if parameter.name in overlaid else flat_parameters([parameter]):
            if each.type in lacking:
                findings.notice(
                    PARAMETERS,
                    f'"{each.name}" is of type {each.type}, and nothing gives it a value',
                    lacking[each.type],
                )


def _page_types_without_value(values: Properties) -> dict[str, str]:
    """Return the parameter types that have no value in any request, each with the advice for it."""
    section = values.section(PagingSection)
    paging, has_session = section.pagination, section.session is not None
    # Without first values, the start and the number have their values from the second page on.
    goes_on = has_session or paging.is_on or paging.is_named or section.total_count_field
    return {
        **({} if has_session else {"session": _GIVE_SESSION}),
        **({} if goes_on else {"pagestart": _GIVE_PAGE, "pageno": _GIVE_PAGE}),
        **({} if _names_page_size(paging) else {"pagesize": _GIVE_PAGE}),
    }


def _names_page_size(pagination: Pagination) -> bool:
    """Return whether a first value, or a field of the response, says how many rows a page has."""
    return bool(pagination.initial_values[1:2]) or any(map(str.strip, pagination.fields[1:2]))


def _check_self_references(values: Properties, given: frozenset[str], findings: Findings) -> None:
    """Refuse a parameter that needs its own value (rule G33), unless every unit gives that value.

    Only whole parameters have values; names inside a parameter of type ``object`` have none.
    """
    last = {parameter.name: parameter for parameter in values.section(ParametersSection).parameters}
    for name, parameter in last.items():
        inside = flat_parameters([parameter])
        texts = (text for each in inside for text in _strings(each.value))
        if name not in given and any(name in placeholders(text) for text in texts):
            findings.problem(
                PARAMETERS,
                f'"{name}" refers to itself',
                "Use the name of another parameter, or of a unit.",
            )


def _missing(use: _Use, known: set[str]) -> list[str]:
    if use.key == STATEMENT:
        # A session key of several columns has a member for each of them, such as cursor.id.
        in_sql = placeholders(_SQL_COMMENTS.sub("", use.text))
        return [name for name in in_sql if not {name, name.partition(".")[0]} & known]
    names = list(placeholders(use.text))
    # A derived field reads only a whole variable, whose name may have any character but braces.
    if use.key == DERIVED and not names and (whole := _VARIABLE.fullmatch(use.text.strip())):
        names = [whole[1]]
    return [name for name in names if name not in known]


def _uses(values: Properties) -> Iterator[_Use]:
    """Yield every text in which variables are replaced."""
    path, mark, query = values.section(SourceSection).uri.partition("?")
    yield _Use(URI, path, is_vital=True)
    yield _Use(URI, mark + query)
    if values.section(JobSection).connector == "jdbc":
        yield _Use(STATEMENT, values.section(DatabaseSection).statement, is_vital=True)
    for section in values.sections():
        for key, text in section.templates():
            yield _Use(key, text, is_vital=key == BODY)
    for parameter in all_parameters(values):
        for text in _strings(parameter.value):
            yield _Use(PARAMETERS, text)
    for derived in values.section(DerivedSection).fields:
        yield _Use(DERIVED, derived.formula.source, is_vital=True)


def _strings(value: JsonValue | tuple[object, ...]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


def check_paging(values: Properties, plugins: Plugins, findings: Findings) -> None:
    """Check the settings by which a work unit requests its pages."""
    if not findings.is_sound(PAGES, PARAMETERS, SESSION, SECONDARY):
        return
    paging = values.section(PagingSection)
    if values.section(SecondarySection).has_payload:
        _check_payload(paging.pagination, findings)
    else:
        _check_values(values, paging.pagination, findings)
    _check_session(values, paging, findings)
    _check_failing(values, paging, plugins, findings)
    _check_ends(values, paging, findings)
    if progress_key(values):
        _check_progress(values, paging, plugins, findings)


def _check_values(values: Properties, pagination: Pagination, findings: Findings) -> None:
    """Report paging in which no parameter changes from page to page."""
    parameters = list(all_parameters(values))
    kinds = {parameter.type for parameter in parameters}
    walks = pagination.is_on or bool(pagination.more)
    if walks and not pagination.next and not kinds & {"session", "pagestart", "pageno"}:
        findings.notice(
            PAGES,
            "is on, and no parameter says which page is meant",
            "Declare one of type pagestart, pageno or session in ms.parameters.",
        )
    used = used_variables(values)
    for parameter in parameters:
        if parameter.type in {"session", *_PAGE_TYPES} and _is_hidden(parameter, used):
            findings.notice(
                PARAMETERS,
                f'"{parameter.name}" says which page is meant, and is never sent: its name begins '
                "with tmp and nothing uses it",
                f"Write {{{{{parameter.name}}}}} in a text, or choose another name.",
            )


def _check_session(values: Properties, paging: PagingSection, findings: Findings) -> None:
    """Report a session key that no request sends, so that no second page is ever requested."""
    session, pagination = paging.session, paging.pagination
    if session is None or session.condition or (session.fail_condition and not paging.failing):
        return
    if pagination.is_on or pagination.is_named or values.section(SecondarySection).has_payload:
        return
    if any(each.type == "session" for each in all_parameters(values)):
        return
    is_http = values.section(JobSection).connector == "http"
    report = findings.problem if is_http else findings.notice
    report(
        SESSION,
        f'names "{session.name}", and no parameter sends it: only the first page would be read',
        'Declare one by the name that the source knows, such as ms.parameters=[{"name": "cursor",'
        f' "type": "session"}}]; remove {SESSION} if there is only one page.',
    )


def _check_failing(
    values: Properties, paging: PagingSection, plugins: Plugins, findings: Findings
) -> None:
    """Refuse a path of failures in answers that are rows of a database, or XML read row by row."""
    is_xml = short_name(PluginKind.EXTRACTOR, plugins.extractor) == "xml"
    is_database = values.section(JobSection).connector == "jdbc"
    if paging.failing is not None and (is_xml or is_database):
        findings.problem(
            SESSION,
            f"has failCondition.name, and {'XML' if is_xml else 'a database'} has no such value"
            " before its rows are read",
            "Remove failCondition: it is for answers in JSON, and for headers of other answers.",
        )


def _check_ends(values: Properties, paging: PagingSection, findings: Findings) -> None:
    """Check the conditions that end the walk over pages."""
    pagination, session = paging.pagination, paging.session
    has_condition = session is not None and session.condition is not None
    if pagination.stop_on_short_page and not _names_page_size(pagination):
        findings.problem(
            PAGES,
            "has stopOnShortPage, and nothing says how many rows a full page has",
            'Give the page size: "initialvalues": [0, 100].',
        )
    if pagination.query_only and not pagination.next:
        findings.problem(PAGES, "has queryOnly without `next`", "Add next, or leave it out.")
    if pagination.fail_at_cap and not pagination.has_cap:
        findings.problem(PAGES, "has failAtCap without a cap", "Add maxPages or maxRows.")
    if pagination.next and session is not None and not has_condition:
        findings.notice(
            PAGES,
            "has `next`, so ms.session.key.field does not decide whether there is another page",
            "Keep one of the two.",
        )
    is_paged = pagination.is_on or pagination.is_named
    polls = has_condition and not is_paged and not values.section(SecondarySection).has_payload
    if polls and not paging.call_interval_ms:
        findings.hint(
            SESSION,
            "asks again at once until its condition is met, unless answers have a Retry-After",
            "ms.call.interval.millis, such as 10000, would give the source time.",
        )
    ends_early = pagination.is_named or pagination.stop_on_short_page or has_condition
    if pagination.is_on and not ends_early and not paging.total_count_field:
        findings.hint(
            PAGES,
            "ends at the first page without rows",
            "ms.total.count.field or a session condition would save that request.",
        )


def _check_payload(pagination: Pagination, findings: Findings) -> None:
    """Check that a work unit ends only after it has sent all its rows."""
    if pagination.has_cap:
        findings.problem(
            PAGES,
            "has a cap, and rows beyond it would silently not be sent",
            f"Remove maxPages and maxRows, or choose fewer rows by the filters in {SECONDARY}.",
        )
    elif pagination.is_on or pagination.is_named:
        findings.notice(
            PAGES,
            f"has no effect: {SECONDARY} has rows to send, one in each request",
            "Remove it.",
        )


def _check_progress(
    values: Properties, paging: PagingSection, plugins: Plugins, findings: Findings
) -> None:
    """Check that pages give a place to resume from, and that no converter holds rows back."""
    pagination = paging.pagination
    walks = pagination.is_on or pagination.is_named or values.section(SecondarySection).has_payload
    if not walks and paging.session is None:
        findings.problem(
            COMMIT,
            "is page, and each work unit is one request",
            "Leave it out, or say how pages are walked: ms.pagination, ms.session.key.field.",
        )
    for reference in plugins.converters:
        found = load(reference)
        if issubclass(found, Converter) and found.finish is not Converter.finish:
            key = progress_key(values)
            findings.problem(
                key,
                f"is {'page' if key == COMMIT else 'true'}, and"
                f" {reference.qualname} of converter.classes holds rows back until the last page",
                "Leave one of the two out.",
            )


def check_secondary_input(values: Properties, folder: Path, findings: Findings) -> None:
    """Refuse whole files as payload, and places that cannot be read.

    Planning alone does not need this check: the caller passes the rows.
    """
    system = values.section(FileSystemsSection).every
    connector = values.section(JobSection).connector
    for index, source in enumerate(values.section(SecondarySection).inputs):
        if source.format == "binary" and connector not in _TAKE_FILES:
            findings.problem(
                SECONDARY,
                f"[{index}].format is binary, and source.class takes no whole files",
                "Leave it out to send rows; s3 and sftp take files.",
            )
        try:
            any_path(source.path, folder, system)
        except PathError as error:
            findings.problem(SECONDARY, f"[{index}].path {error}", error.fix)
