"""Checks of the parameters, the secondary input and the paging of requests.

See docs/secondary-input.md, docs/paging.md, rules C32 and G38.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dil.config.egress import COMMIT, progress_key
from dil.config.findings import Findings
from dil.config.identity import JobSection
from dil.config.planning import members_of_source
from dil.config.watermarks import WATERMARK, PlanningSection
from dil.model.job import PlanningSpec, Plugins
from dil.model.json import JsonValue, as_text
from dil.model.messages import nearest, quote
from dil.model.properties import Properties
from dil.model.settings import Pagination, Parameter, SessionKeyField, flat_parameters
from dil.sections.conversion import DERIVED, DerivedSection
from dil.sections.extraction import DumpSection
from dil.sections.file_systems import FileSystemsSection
from dil.sections.http import BODY
from dil.sections.paging import PAGES, SESSION, PagingSection
from dil.sections.parameters import PARAMETERS, ParametersSection
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.sections.source import STATEMENT, URI, DatabaseSection, SourceSection
from dil.spi.converter import Converter
from dil.spi.registry import PluginKind, load, short_name
from dil.storage.locations import PathError, any_path
from dil.text.variables import placeholders

# Connectors that take whole files as payload.
_TAKE_FILES = frozenset({"s3", "sftp"})
_FORMATS = ("datetime", "epoc-second", "epoch-second", "epoch-milli")
_ENDS = ("low", "high", "last")
_VARIABLE = re.compile(r"\{\{([^{}]+)\}\}")
# Finds at least the comments of a statement, in all dialects: variables in a comment need no value.
_SQL_COMMENTS = re.compile(r"/\*.*\*/[^\n]*|(?:--|#)[^\n]*", re.DOTALL)
# The properties that give variables their names; if one of them is wrong, no name can be checked.
_GIVERS = (PARAMETERS, WATERMARK, SECONDARY)


@dataclass(frozen=True, slots=True)
class _Use:
    """A text in which variables are replaced; ``is_vital``: the text is useless without them."""

    key: str
    text: str
    is_vital: bool = False

    def missing(self, known: set[str]) -> list[str]:
        """Return the variables of the text that are not known."""
        if self.key == STATEMENT:
            # A session key of several columns has a member for each of them, such as cursor.id.
            in_sql = placeholders(_SQL_COMMENTS.sub("", self.text))
            return [name for name in in_sql if not {name, name.partition(".")[0]} & known]
        names = list(placeholders(self.text))
        # A derived field reads only a whole variable, whose name may have any character but braces.
        whole = _VARIABLE.fullmatch(self.text.strip())
        if self.key == DERIVED and not names and whole:
            names = [whole[1]]
        return [name for name in names if name not in known]


def check_parameters(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Check watermark parameters, references of parameters to themselves, and all variables."""
    if not findings.is_sound(*_GIVERS):
        return
    secondary = values.section(SecondarySection)
    units = _members(planning, values, secondary.variables)
    overlaid = _overlaid(units)
    # A unit's value replaces the parameter of its name (rule G32), so that it needs no check.
    parameters = values.section(ParametersSection).parameters
    counting = [each for each in parameters if each.name not in overlaid]
    for parameter in flat_parameters(counting):
        if parameter.type == "watermark":
            _check_watermark(parameter, values, planning, units, findings)
            _check_form(parameter, findings)
        elif parameter.type == "session" and parameter.format not in ("", "json", "members"):
            findings.notice(
                PARAMETERS,
                f'"{parameter.name}" has the unknown format {quote(parameter.format)}; the session'
                " key is sent as text",
                'Write "format":"json" if the source wants the array or object, "members" if it'
                " wants the members of the object as parameters, or remove it.",
            )
    _check_session_members(counting, values, findings)
    if findings.is_sound(PAGES, SESSION):
        _check_page_values(counting, values.section(PagingSection), findings)
    # A parameter cannot have its own value (rule G33). Only whole parameters have values: names
    # inside a parameter of type ``object`` have none.
    for name, parameter in {each.name: each for each in parameters}.items():
        texts = (text for each in flat_parameters([parameter]) for text in _strings(each.value))
        if name not in overlaid and any(name in placeholders(text) for text in texts):
            fix = "Use the name of another parameter, or of a unit."
            findings.problem(PARAMETERS, f'"{name}" refers to itself', fix)
    known = {name for unit in units for name in unit} | {each.name for each in parameters}
    is_readable = findings.is_sound(STATEMENT)  # else the connector has reported the statement
    for use in _uses(values):
        for name in use.missing(known) if use.key != STATEMENT or is_readable else ():
            report = findings.problem if use.is_vital else findings.notice
            what = f"uses {{{{{name}}}}}, which nothing gives a value"
            report(
                use.key, what, nearest(name, known, "Declare it in ms.parameters, or as a unit.")
            )
    _check_first_session(values, planning, findings)
    _check_unsent_units(values, planning, findings)


def _check_session_members(
    parameters: Sequence[Parameter], values: Properties, findings: Findings
) -> None:
    """Check parameters whose session key is an object of which each member is sent."""
    used = {name for use in _uses(values) for name in placeholders(use.text)}
    for parameter in flat_parameters(parameters):
        if not parameter.is_members:
            continue
        if parameter not in parameters:
            what = f'"{parameter.name}" is inside an object, and has the format members'
            fix = 'Move it out, or write "format":"json" to send the object under this name.'
            findings.problem(PARAMETERS, what, fix)
        elif parameter.name in used:
            variable = f"{{{{{parameter.name}}}}}"
            what = f'"{parameter.name}" has the format members, and {variable} is used'
            fix = "Leave the text out: the members are sent under their own names."
            findings.problem(PARAMETERS, what, fix)
    session = findings.is_sound(SESSION) and values.section(PagingSection).session
    first = session and session.init_value
    if first and any(each.is_members for each in parameters) and not _is_object(first):
        findings.problem(
            SESSION,
            "has an initValue that is no object, and its parameter has the format members",
            'Write JSON in a text, such as "initValue": "{\\"offset\\": 0}", or remove it: then the'
            " first request has none of the members.",
        )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(_VARIABLE.sub("0", text)), dict)
    except ValueError:
        return False


def _check_unsent_units(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Report units of which no request sends a member: each unit would read the same rows.

    LinkedIn's DIL sends all members, also those that are no parameters (rule G32). The only unit of
    a job may be the label of its rows, or the name of its file.
    """
    if values.section(JobSection).connector != "http":
        return
    secondary, session = values.section(SecondarySection), values.section(PagingSection).session
    members = _members(planning, values, secondary.fields_of("activation"))
    names = {name for unit in members for name in unit}
    is_only = planning.units is not None and len(planning.units) == 1
    texts = [use.text for use in _uses(values) if is_only or use.key != DERIVED]
    if is_only:
        texts.append(values.section(DumpSection).file_name)
    texts += [source.path for source in secondary.payload]
    if session is not None:
        texts.append(session.init_value or "")
    sent = {name for text in texts for name in placeholders(text)}
    sent.update(each.name for each in values.section(ParametersSection).parameters)
    if names and not names & sent:
        first, *_ = found = sorted(names)
        findings.notice(
            SECONDARY if planning.units is None else WATERMARK,
            f"gives units, and no request sends {' or '.join(found)}: each unit reads the same"
            " rows",
            f'Write {{{{{first}}}}} in {URI}, or declare it: {PARAMETERS}=[{{"name":"{first}"}}].',
        )


def _check_first_session(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Refuse variables in ``initValue`` that are not a member of every unit.

    Authentication fields are in no signature: a walk from an old value would be resumed.
    """
    given = values.section(SecondarySection).fields_of("activation")
    own = _overlaid(_members(planning, values, given))
    session = values.section(PagingSection).session
    for name in placeholders(session.init_value or "") if session else ():
        if name not in own:
            fix = "Declare it in each unit, or as a field of an activation input."
            findings.problem(
                SESSION,
                f"uses {{{{{name}}}}} in initValue, which is not a member of every unit",
                nearest(name, own, fix),
            )


def all_parameters(values: Properties) -> Iterator[Parameter]:
    """Yield the declared parameters and the parameters inside them."""
    return flat_parameters(values.section(ParametersSection).parameters)


def sent_watermarks(values: Properties, planning: PlanningSpec) -> Iterator[Parameter]:
    """Yield the watermark parameters that are sent to the source."""
    given = values.section(SecondarySection).variables
    overlaid = _overlaid(_members(planning, values, given))
    hidden = _hidden(values)
    for parameter in all_parameters(values):
        is_of_range = parameter.type == "watermark" and parameter.name not in overlaid
        if is_of_range and parameter.name not in hidden:
            yield parameter


def sends_low_watermark(values: Properties, planning: PlanningSpec) -> bool:
    """Return whether requests send the low watermark to the source."""
    return any(as_text(each.value).lower() == "low" for each in sent_watermarks(values, planning))


def _hidden(values: Properties) -> set[str]:
    """Return the names of parameters that are only for other texts, and that none of them uses."""
    used = {name for use in _uses(values) for name in placeholders(use.text)}
    names = {each.name for each in all_parameters(values)}
    return {name for name in names - used if name.startswith("tmp")}


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


def _check_watermark(
    parameter: Parameter,
    values: Properties,
    planning: PlanningSpec,
    units: tuple[frozenset[str], ...],
    findings: Findings,
) -> None:
    """Check the watermark that a parameter names; a job has one of type datetime (rule G35)."""
    marks, name, where = values.section(PlanningSection).marks, parameter.watermark, parameter.name
    dated = planning.datetime_name if marks.is_dated else ""
    unit = planning.unit_name if marks.has_units or planning.units is None else ""
    if not name or name == dated:
        return
    if name == unit:
        members = sorted({member for each in units for member in each}) or [name]
        variables = " or ".join(f"{{{{{member}}}}}" for member in members)
        findings.problem(
            PARAMETERS,
            f'"{where}" is of type watermark, and {name} is a unit watermark',
            f'Write {variables} in a text, such as "value":"{{{{{members[0]}}}}}" in a '
            "parameter of type list.",
        )
    elif dated:
        findings.notice(
            PARAMETERS,
            f'"{where}" names the watermark "{name}", which is not declared; "{dated}" is used, '
            "the only watermark of type datetime",
            f'Write "watermark":"{dated}".',
        )
    else:
        findings.notice(
            PARAMETERS,
            f'"{where}" names the watermark "{name}", and ms.watermark declares none of type '
            "datetime: the range is 2019-01-01 to now",
            f'Declare "{name}" in ms.watermark, with its range.',
        )


def _check_form(parameter: Parameter, findings: Findings) -> None:
    """Report an unknown value or format, with the default that takes its place."""
    where, value, form = parameter.name, as_text(parameter.value), parameter.format
    if value.lower() not in _ENDS:
        findings.notice(
            PARAMETERS,
            f'"{where}" has neither low, high nor last as value; high is used',
            nearest(value, _ENDS, 'Write "value":"low", "value":"high" or "value":"last".'),
        )
    if form and form not in _FORMATS:
        findings.notice(
            PARAMETERS,
            f'"{where}" has the unknown format {quote(form)}; epoch milliseconds are sent',
            nearest(form, _FORMATS, f"Known formats: {', '.join(_FORMATS)}."),
        )
    elif parameter.pattern and form != "datetime":
        what = f'"{where}" has a pattern, which only format datetime reads'
        findings.notice(PARAMETERS, what, 'Write "format":"datetime", or remove the pattern.')


def _check_page_values(
    parameters: Sequence[Parameter], section: PagingSection, findings: Findings
) -> None:
    """Report parameters that get their value from the previous page, if no page gives a value."""
    paging, has_session = section.pagination, section.session is not None
    # Without first values, the start and the number have their values from the second page on.
    goes_on = has_session or paging.is_on or paging.is_named or section.total_count_field
    page = 'Give the first start, size and number: ms.pagination={"initialvalues": [0, 100, 1]}.'
    lacking = {} if goes_on else {"pagestart": page, "pageno": page}
    if not _names_page_size(paging):
        lacking["pagesize"] = page
    if not has_session:
        path = 'Give its path in the responses: ms.session.key.field={"name": "its path"}.'
        lacking["session"] = path
    for each in flat_parameters(parameters):
        if each.type in lacking:
            what = f'"{each.name}" is of type {each.type}, and nothing gives it a value'
            findings.notice(PARAMETERS, what, lacking[each.type])
    _check_first_texts(
        parameters, [each for each in parameters if each.type not in lacking], section, findings
    )


def _check_first_texts(
    parameters: Sequence[Parameter],
    variables: Sequence[Parameter],
    section: PagingSection,
    findings: Findings,
) -> None:
    """Report texts of parameters with a variable that has its first value from the first page."""
    session, first = section.session, section.pagination.initial_values
    advice = {}
    if session is not None and session.init_value is None:
        advice["session"] = 'Give ms.session.key.field a first key: "initValue": "0", for example.'
    for position, kind in enumerate(("pagestart", "pagesize", "pageno")):
        if not first[position : position + 1]:
            advice[kind] = "Give ms.pagination `initialvalues`: the first start, size and number."
    # Only whole parameters are variables: names inside a parameter of type object have no value.
    late = {each.name: advice.get(each.type) for each in variables}  # the last of a name counts
    texts = (text for each in flat_parameters(parameters) for text in _strings(each.value))
    for name in dict.fromkeys(name for text in texts for name in placeholders(text)):
        if fix := late.get(name):
            what = f"uses {{{{{name}}}}}, and the first request sends it as it is written"
            findings.notice(PARAMETERS, f"{what}: it has no value yet", fix)


def _names_page_size(pagination: Pagination) -> bool:
    """Return whether a first value, or a field of the response, says how many rows a page has."""
    return bool(pagination.initial_values[1:2]) or any(map(str.strip, pagination.fields[1:2]))


def _uses(values: Properties) -> Iterator[_Use]:
    """Yield every text in which variables are replaced."""
    path, mark, query = values.section(SourceSection).uri.partition("?")
    yield _Use(URI, path, is_vital=True)
    yield _Use(URI, mark + query)
    if values.section(JobSection).connector == "jdbc":
        yield _Use(STATEMENT, values.section(DatabaseSection).statement, is_vital=True)
    sends_rows = values.section(SecondarySection).has_payload
    for section in values.sections():
        for key, text in section.templates():
            if key != BODY or not sends_rows:  # The connector reports a body beside rows to send.
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
    pagination = paging.pagination
    if not values.section(SecondarySection).has_payload:
        _check_page_parameters(values, pagination, findings)
    elif pagination.has_cap:
        findings.problem(
            PAGES,
            "has a cap, and rows beyond it would silently not be sent",
            f"Remove maxPages and maxRows, or choose fewer rows by the filters in {SECONDARY}.",
        )
    elif pagination.is_on or pagination.is_named:
        what = f"has no effect: {SECONDARY} has rows to send, one in each request"
        findings.notice(PAGES, what, "Remove it.")
    connector = values.section(JobSection).connector
    if session := _unsent_session(values, paging):
        report = findings.problem if connector == "http" else findings.notice
        report(
            SESSION,
            f'names "{session.name}", and no parameter sends it: only the first page would be read',
            "Declare one by the name that the source knows, such as"
            ' ms.parameters=[{"name": "cursor", "type": "session"}];'
            f" remove {SESSION} if there is only one page.",
        )
    # Rows of a database, and XML that is read row by row, have no place for a failure.
    is_xml = short_name(PluginKind.EXTRACTOR, plugins.extractor) == "xml"
    if paging.failing is not None and (is_xml or connector == "jdbc"):
        findings.problem(
            SESSION,
            f"has failCondition.name, and {'XML' if is_xml else 'a database'} has no such value"
            " before its rows are read",
            "Remove failCondition: it is for answers in JSON, and for headers of other answers.",
        )
    _check_ends(values, paging, findings)
    if key := progress_key(values):
        _check_progress(key, values, plugins, findings)


def _check_page_parameters(values: Properties, paging: Pagination, findings: Findings) -> None:
    """Report paging in which no parameter changes from page to page."""
    parameters = list(all_parameters(values))
    turning = {"session", "pagestart", "pageno"}
    walks = (paging.is_on or bool(paging.more)) and not paging.next
    if walks and turning.isdisjoint(each.type for each in parameters):
        findings.notice(
            PAGES,
            "is on, and no parameter says which page is meant",
            "Declare one of type pagestart, pageno or session in ms.parameters.",
        )
    hidden = _hidden(values)
    for parameter in parameters:
        is_page_value = parameter.type in {*turning, "pagesize"} and not parameter.is_members
        if is_page_value and parameter.name in hidden:
            findings.notice(
                PARAMETERS,
                f'"{parameter.name}" says which page is meant, and is never sent: its name begins '
                "with tmp and nothing uses it",
                f"Write {{{{{parameter.name}}}}} in a text, or choose another name.",
            )


def _unsent_session(values: Properties, paging: PagingSection) -> SessionKeyField | None:
    """Return the session key if no request sends it, so that no second page is ever requested."""
    session, pagination = paging.session, paging.pagination
    if session is None or session.condition or (session.fail_condition and not paging.failing):
        return None
    if pagination.is_on or pagination.is_named or values.section(SecondarySection).has_payload:
        return None
    return None if any(each.type == "session" for each in all_parameters(values)) else session


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


def _check_progress(key: str, values: Properties, plugins: Plugins, findings: Findings) -> None:
    """Check that pages give a place to resume from, and that no converter holds rows back."""
    paging = values.section(PagingSection)
    has_payload = values.section(SecondarySection).has_payload
    walks = paging.pagination.is_on or paging.pagination.is_named or has_payload
    if not walks and paging.session is None:
        findings.problem(
            COMMIT,
            "is page, and each work unit is one request",
            "Leave it out, or say how pages are walked: ms.pagination, ms.session.key.field.",
        )
    for reference in plugins.converters:
        found = load(reference)
        if issubclass(found, Converter) and found.finish is not Converter.finish:
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
