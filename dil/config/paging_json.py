"""JSON properties of paging and sessions as frozen models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dil.config.regular_expressions import check_regex
from dil.config.shape import Surroundings, as_object, build, texts
from dil.model.json import JsonValue
from dil.model.settings import Pagination, SessionKeyField


def _pagination(value: JsonValue, around: Surroundings) -> Pagination:
    del around
    return build(Pagination, as_object(value))


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
