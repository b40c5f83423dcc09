"""Paging and sessions: their properties and JSON. See docs/semantics/paging.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from dil.model.json import JsonValue
from dil.model.section import Long, Section, ValueType, Written, prop
from dil.model.settings import FailCondition, Pagination, SessionKeyField
from dil.sections.grammars import DocumentPath, check_regex, note_dot_path, path_problem
from dil.sections.reading import ReadContext, ShapeError, as_object, build, texts

PAGES, SESSION, TOTAL = "ms.pagination", "ms.session.key.field", "ms.total.count.field"


def _pagination(value: JsonValue, around: ReadContext) -> Pagination:
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
    for where, text in paths:
        note_dot_path(where, text, around)
    return pagination


def _place(member: str, text: str, *, is_link: bool) -> Iterator[tuple[str, str]]:
    """Yield the problems of a place in the response."""
    if text == "link" and not is_link:
        yield f"{member} is link, and a link is no flag", "Write `next`: its absence is the end."
    elif text.startswith("header:") and not text.removeprefix("header:").strip():
        yield f"{member} names no header", f'Write "{member}": "header:X-Name".'
    elif text.lower() == "link" != text:
        yield f'{member} is "{text}"', 'Write "link" for the Link header.'


def _session_key(value: JsonValue, around: ReadContext) -> SessionKeyField:
    members = dict(as_object(value))
    if "initValue" in members:
        members.update(texts({"initValue": members["initValue"]}))
    session = build(SessionKeyField, members)
    failing = session.fail_condition or FailCondition()
    if found := list(_lacking(session, failing)):
        raise ShapeError(*found)
    for name, condition in (
        ("condition", session.condition),
        ("failCondition", failing),
        ("failCondition.retry", failing.retry),
    ):
        if condition is not None and condition.regexp is not None:
            check_regex(condition.regexp, f"{name}.regexp")
    for where, text in (("name", session.name), ("failCondition.name", failing.name)):
        if problem := path_problem(where, text):
            raise ShapeError(problem)
        note_dot_path(where, text, around)
    return session


def _lacking(session: SessionKeyField, failing: FailCondition) -> Iterator[tuple[str, str]]:
    """Yield the problems of members that need another member beside them."""
    if not session.name and not failing.name:
        yield 'lacks the member "name"', 'Add "name".'
    elif not session.name and (session.condition or session.init_value is not None):
        yield (
            'lacks the member "name", which condition and initValue need',
            "Add the path of the session key.",
        )
    if session.fail_condition and not failing.name and failing.regexp is None:
        yield (
            'lacks the member "failCondition.regexp"',
            'Add "regexp", or "name": the path of a value that only failures have.',
        )
    if failing.retry and not failing.name:
        yield (
            "has failCondition.retry without failCondition.name",
            "Add the path of the value that shows the failure.",
        )


_Pages = Annotated[Pagination, Written(ValueType.JSON_OBJECT, read=_pagination)]
_SessionKey = Annotated[SessionKeyField, Written(ValueType.JSON_OBJECT, read=_session_key)]


@dataclass(frozen=True, slots=True)
class PagingSection(Section):
    """Properties of the pages that a work unit requests."""

    pagination: _Pages = prop(
        PAGES,
        "How pages are requested: by page values, by the address of the next page in a response, "
        "or by a flag in a response; and the limits that end the walk at the latest.",
        default_factory=Pagination,
        example='{"initialvalues": [0, 100, 1], "fields": ["paging.offset", "paging.limit"]}',
    )
    session_key: _SessionKey | None = prop(
        SESSION,
        "Header or path of a cursor or status: `name`, `initValue`, `condition` (done), "
        "`failCondition` (failed; with a `name` of its own, the answers that report an error).",
        default=None,
        example='{"name": "status", "condition": {"regexp": "ready|empty"},\n'
        ' "failCondition": {"regexp": "failed"}}',
    )
    total_count_field: DocumentPath = prop(
        TOTAL,
        "Place of the total number of rows in the response: a path, dotted or JSONPath, or "
        "`header:<name>`.",
        default="",
        example="paging.total",
    )
    call_interval_ms: Annotated[Long, Ge(0)] = prop(
        "ms.call.interval.millis",
        "Least time between the starts of two requests of a work unit.",
        default=0,
        identity=False,
    )
    wait_timeout_s: Annotated[Long, Ge(0), Le(86_400)] = prop(
        "ms.wait.timeout.seconds",
        "Most time that a session may take to meet its condition.",
        default=600,
        identity=False,
    )

    @property
    def session(self) -> SessionKeyField | None:
        """Return the session key, None if there is none, or only a condition of failed answers."""
        return self.session_key if self.session_key and self.session_key.name else None

    @property
    def failing(self) -> FailCondition | None:
        """Return the condition of failed answers, None if only the session key can show them."""
        condition = self.session_key and self.session_key.fail_condition
        return condition if condition and condition.name else None
