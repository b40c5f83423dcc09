"""Paging: its properties, the JSON of them, and the checks of how requests follow each other.

Source: behaviour.md B8, B16.2, B19; spec README 29.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from dil.config.egress import progress_key
from dil.config.findings import Findings
from dil.config.identity import JobSection
from dil.config.job_classes import Plugins
from dil.config.parameter_checks import KEY as PARAMETERS
from dil.config.parameter_checks import all_parameters, used_variables
from dil.config.secondary import KEY as SECONDARY
from dil.config.secondary import has_payload
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.model.section import Long, Scope, Section, ValueType, Written, prop
from dil.model.settings import Pagination, SessionKeyField
from dil.spi.converter import Converter
from dil.spi.http import METHOD, SendingSection
from dil.spi.reading import ShapeError, Surroundings, as_object, build, texts
from dil.spi.registry import is_built_in, load
from dil.text.property_paths import DocumentPath, path_problem
from dil.text.regular_expressions import check_regex

_PAGING = "ms.pagination"
_COMMIT = "ms.state.cursor.commit"
_PAGE_TYPES = frozenset({"pagestart", "pagesize", "pageno"})
_HTTP = "connectors.http"


def _pagination(value: JsonValue, around: Surroundings) -> Pagination:
    del around
    pagination = build(Pagination, as_object(value))
    found = [
        *_place("next", pagination.next, is_link=True),
        *_place("more", pagination.more, is_link=False),
    ]
    paths = [(f"fields[{index}]", text.strip()) for index, text in enumerate(pagination.fields)]
    paths += [("next", pagination.next), ("more", pagination.more)]
    found += filter(None, (path_problem(where, text) for where, text in paths))
    if found:
        raise ShapeError(*found)
    return pagination


def _place(member: str, text: str, *, is_link: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a place of the answer."""
    if text == "link" and not is_link:
        yield f"{member} is link, and a link is no flag", "Write `next`: its absence is the end."
    elif text.startswith("header:") and not text.removeprefix("header:").strip():
        yield f"{member} names no header", f'Write "{member}": "header:X-Name".'
    elif text.lower() == "link" != text:
        yield f'{member} is "{text}"', 'Write "link" for the Link header.'


def _session_key(value: JsonValue, around: Surroundings) -> SessionKeyField:
    del around
    members = dict(as_object(value))
    if "initValue" in members:
        members.update(texts({"initValue": members["initValue"]}))
    session = build(SessionKeyField, members)
    for name, condition in (
        ("condition", session.condition),
        ("failCondition", session.fail_condition),
    ):
        if condition is not None:
            check_regex(condition.regexp, f"{name}.regexp")
    if found := path_problem("name", session.name):
        raise ShapeError(found)
    return session


_Pages = Annotated[Pagination, Written(ValueType.JSON_OBJECT, read=_pagination)]
_SessionKey = Annotated[SessionKeyField, Written(ValueType.JSON_OBJECT, read=_session_key)]


@dataclass(frozen=True, slots=True)
class PagingSection(Section):
    """How a work unit's requests follow each other."""

    pagination: _Pages = prop(
        "ms.pagination",
        "How pages are walked: by page values, by an address of the next page or a flag that "
        "responses hold; and what ends a walk at the latest.",
        default_factory=Pagination,
        example='{"initialvalues": [0, 100, 1], "fields": ["paging.offset", "paging.limit"]}',
        scope=Scope.TASK,
    )
    session: _SessionKey | None = prop(
        "ms.session.key.field",
        "Header or path of a cursor or status: `name`, `initValue`, `condition` (done), "
        "`failCondition` (failed).",
        default=None,
        example='{"name": "status", "condition": {"regexp": "ready|empty"},\n'
        ' "failCondition": {"regexp": "failed"}}',
        scope=Scope.TASK,
    )
    total_count_field: DocumentPath = prop(
        "ms.total.count.field",
        "Where the response tells the total number of rows: a path, dotted or JSONPath, or "
        "`header:<name>`.",
        default="",
        example="paging.total",
        scope=Scope.TASK,
    )
    call_interval_ms: Annotated[Long, Ge(0)] = prop(
        "ms.call.interval.millis",
        "Least time between the starts of two requests of a work unit.",
        default=0,
        scope=Scope.TASK,
        identity=False,
    )
    wait_timeout_s: Annotated[Long, Ge(0), Le(86_400)] = prop(
        "ms.wait.timeout.seconds",
        "How long a session may take to meet its condition.",
        default=600,
        scope=Scope.TASK,
        identity=False,
    )
    commit_s: Annotated[Long, Ge(0), Le(86_400)] = prop(
        "ms.state.cursor.commit.seconds",
        "With `ms.state.cursor.commit` page: how many seconds of work lie between two savings "
        "of progress inside a work unit; 0 saves after every page.",
        default=1,
        scope=Scope.TASK,
        identity=False,
    )


def check_paging(values: Properties, plugins: Plugins, findings: Findings) -> None:
    """Check how a work unit's requests follow each other."""
    if not findings.is_sound(_PAGING, PARAMETERS, "ms.session.key.field", SECONDARY):
        return
    paging = values.section(PagingSection)
    _check_values(values, paging.pagination, findings)
    _check_ends(paging, findings)
    if has_payload(values):
        _check_payload(values, paging.pagination, plugins, findings)
    if progress_key(values):
        _check_progress(values, paging, plugins, findings)


def _check_values(values: Properties, pagination: Pagination, findings: Findings) -> None:
    """Say when nothing would ever change from page to page."""
    parameters = list(all_parameters(values))
    kinds = {parameter.type for parameter in parameters}
    walks = pagination.is_on or bool(pagination.more)
    if walks and not pagination.next and not kinds & {"session", *_PAGE_TYPES}:
        findings.notice(
            _PAGING,
            "is on, and no parameter says which page is meant",
            "Declare one of type pagestart, pageno or session in ms.parameters.",
        )
    used = used_variables(values)
    for parameter in parameters:
        is_hidden = parameter.name.startswith("tmp") and parameter.name not in used
        if parameter.type in _PAGE_TYPES and is_hidden:
            findings.notice(
                PARAMETERS,
                f'"{parameter.name}" says which page is meant, and is never sent: its name begins '
                "with tmp and nothing uses it",
                f"Write {{{{{parameter.name}}}}} where it is wanted, or choose another name.",
            )


def _check_ends(paging: PagingSection, findings: Findings) -> None:
    """Check what ends a walk."""
    pagination, session = paging.pagination, paging.session
    has_condition = session is not None and session.condition is not None
    sizes = (*pagination.initial_values[1:2], *filter(str.strip, pagination.fields[1:2]))
    if pagination.stop_on_short_page and not sizes:
        findings.problem(
            _PAGING,
            "has stopOnShortPage, and nothing says how many rows a full page has",
            'Give the page size: "initialvalues": [0, 100].',
        )
    if pagination.fail_at_cap and not pagination.has_cap:
        findings.problem(_PAGING, "has failAtCap without a cap", "Add maxPages or maxRows.")
    if pagination.next and session is not None and not has_condition:
        findings.notice(
            _PAGING,
            "has `next`, so ms.session.key.field does not decide whether there is another page",
            "Keep one of the two.",
        )
    ends_early = pagination.is_named or pagination.stop_on_short_page or has_condition
    if pagination.is_on and not ends_early and not paging.total_count_field:
        findings.notice(
            _PAGING,
            "ends at the first page without rows",
            "ms.total.count.field or a session condition would save that request.",
        )


def _check_payload(
    values: Properties, pagination: Pagination, plugins: Plugins, findings: Findings
) -> None:
    """Check that rows can be sent, and that nothing but their end ends the work unit."""
    connector = plugins.connector
    if connector is None:
        return
    is_http = connector.module.startswith(_HTTP)
    sending = values.section(SendingSection)
    if is_http and sending.is_safe:
        findings.problem(
            METHOD,
            f"is {sending.method}, which has no body, and {SECONDARY} has rows to send",
            "Use POST or PUT.",
        )
    elif not is_http and is_built_in(connector):
        findings.problem(
            SECONDARY,
            f"has rows to send, and {values.section(JobSection).source_class} sends none",
            "Category payload is for HTTP.",
        )
    if pagination.has_cap:
        findings.problem(
            _PAGING,
            "has a cap, and rows beyond it would silently not be sent",
            f"Remove maxPages and maxRows, or choose fewer rows by the filters in {SECONDARY}.",
        )
    elif pagination.is_on or pagination.is_named:
        findings.notice(
            _PAGING,
            f"has no effect: {SECONDARY} has rows to send, one in each request",
            "Remove it.",
        )


def _check_progress(
    values: Properties, paging: PagingSection, plugins: Plugins, findings: Findings
) -> None:
    """Check that there is a place to go on from, and that no converter holds rows back."""
    pagination = paging.pagination
    walks = pagination.is_on or pagination.is_named or has_payload(values)
    if not walks and paging.session is None:
        findings.problem(
            _COMMIT,
            "is page, and each work unit is one request",
            "Leave it out, or say how pages are walked: ms.pagination, ms.session.key.field.",
        )
    for reference in plugins.converters:
        found = load(reference)
        if issubclass(found, Converter) and found.finish is not Converter.finish:
            key = progress_key(values)
            findings.problem(
                key,
                f"is {'page' if key == _COMMIT else 'true'}, and"
                f" {reference.qualname} of converter.classes holds rows back until the last page",
                "Leave one of the two out.",
            )
