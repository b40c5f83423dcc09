"""Checks of paging, of progress inside work units, and of rows to send.

Source: behaviour.md B8, B16.2, B19; spec README 29.
"""

from __future__ import annotations

from dil.config.egress_checks import progress_key
from dil.config.findings import Findings
from dil.config.parameter_checks import KEY as PARAMETERS
from dil.config.parameter_checks import all_parameters, used_variables
from dil.config.plugins import find_plugins
from dil.config.secondary_checks import KEY as SECONDARY
from dil.config.secondary_checks import has_payload
from dil.model.properties import Properties
from dil.model.settings import Pagination, SessionKeyField
from dil.spi.converter import Converter
from dil.spi.registry import is_built_in, load

_PAGING = "ms.pagination"
_COMMIT = "ms.state.cursor.commit"
_METHOD = "ms.http.request.method"
_PAGE_TYPES = frozenset({"pagestart", "pagesize", "pageno"})
_HTTP = "connectors.http"
_GETS = frozenset({"GET", "GET_XE"})


def check_paging(values: Properties, findings: Findings) -> None:
    """Check how a work unit's requests follow each other."""
    if not findings.is_sound(_PAGING, PARAMETERS, "ms.session.key.field", SECONDARY):
        return
    pagination = values.typed(_PAGING, Pagination)
    _check_values(values, pagination, findings)
    _check_ends(values, pagination, findings)
    if has_payload(values):
        _check_payload(values, pagination, findings)
    if progress_key(values):
        _check_progress(values, pagination, findings)


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


def _check_ends(values: Properties, pagination: Pagination, findings: Findings) -> None:
    """Check what ends a walk."""
    session = values["ms.session.key.field"]
    has_condition = isinstance(session, SessionKeyField) and session.condition is not None
    sizes = (*pagination.initial_values[1:2], *filter(str.strip, pagination.fields[1:2]))
    if pagination.stop_on_short_page and not sizes:
        findings.problem(
            _PAGING,
            "has stopOnShortPage, and nothing says how many rows a full page has",
            'Give the page size: "initialvalues": [0, 100].',
        )
    if pagination.fail_at_cap and not pagination.has_cap:
        findings.problem(_PAGING, "has failAtCap without a cap", "Add maxPages or maxRows.")
    if pagination.next and isinstance(session, SessionKeyField) and not has_condition:
        findings.notice(
            _PAGING,
            "has `next`, so ms.session.key.field does not decide whether there is another page",
            "Keep one of the two.",
        )
    ends_early = pagination.is_named or pagination.stop_on_short_page or has_condition
    if pagination.is_on and not ends_early and not values.text("ms.total.count.field"):
        findings.notice(
            _PAGING,
            "ends at the first page without rows",
            "ms.total.count.field or a session condition would save that request.",
        )


def _check_payload(values: Properties, pagination: Pagination, findings: Findings) -> None:
    """Check that rows can be sent, and that nothing but their end ends the work unit."""
    connector = find_plugins(values, Findings()).connector
    if connector is None:
        return
    is_http = connector.module.startswith(_HTTP)
    if is_http and values.text(_METHOD).upper() in _GETS:
        findings.problem(
            _METHOD,
            f"is {values.text(_METHOD)}, which has no body, and {SECONDARY} has rows to send",
            "Use POST or PUT.",
        )
    elif not is_http and is_built_in(connector):
        findings.problem(
            SECONDARY,
            f"has rows to send, and {values.text('source.class')} sends none",
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


def _check_progress(values: Properties, pagination: Pagination, findings: Findings) -> None:
    """Check that there is a place to go on from, and that no converter holds rows back."""
    walks = pagination.is_on or pagination.is_named or has_payload(values)
    if not walks and values["ms.session.key.field"] is None:
        findings.problem(
            _COMMIT,
            "is page, and each work unit is one request",
            "Leave it out, or say how pages are walked: ms.pagination, ms.session.key.field.",
        )
    for reference in find_plugins(values, Findings()).converters:
        found = load(reference)
        if issubclass(found, Converter) and found.finish is not Converter.finish:
            key = progress_key(values)
            findings.problem(
                key,
                f"is {values.text(_COMMIT) if key == _COMMIT else 'true'}, and"
                f" {reference.qualname} of converter.classes holds rows back until the last page",
                "Leave one of the two out.",
            )
