"""JSON properties of paging and sessions as frozen models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dil.config.regular_expressions import check_regex
from dil.config.shape import ShapeError, Surroundings, as_object, build, texts
from dil.model.json import JsonValue
from dil.model.settings import Pagination, SessionKeyField


def _pagination(value: JsonValue, around: Surroundings) -> Pagination:
    del around
    pagination = build(Pagination, as_object(value))
    found = [
        *_place("next", pagination.next, is_link=True),
        *_place("more", pagination.more, is_link=False),
    ]
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


def _session(value: JsonValue, around: Surroundings) -> SessionKeyField:
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
    return session


READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {
    "ms.pagination": _pagination,
    "ms.session.key.field": _session,
}
EMPTY: Mapping[str, Callable[[], object]] = {"ms.pagination": Pagination}
