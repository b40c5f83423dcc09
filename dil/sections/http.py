"""Properties of HTTP that the framework reads, too: sending, content types, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.model.json import JsonValue
from dil.model.section import ONE_OF, Bool, Int, Rate, Section, Text, ValueType, Written, prop
from dil.sections.reading import ReadContext, ShapeError, as_object

METHOD = "ms.http.request.method"
BODY = "ms.http.request.body"
IDEMPOTENCY_HEADER = "ms.http.idempotency.header"
BUDGET = "ms.http.requests.max"


def _content_types(value: JsonValue, around: ReadContext) -> dict[str, str]:
    members = as_object(value)
    if "content-type" not in {name.lower() for name in members}:
        around.notice("has no Content-Type, so it has no effect", 'Name it "Content-Type".')
    found: dict[str, str] = {}
    for name, item in members.items():
        if not isinstance(item, str):
            raise ShapeError((f'"{name}" is no text', "Write a media type."))
        found[name] = item
    return found


_ContentTypes = Annotated[
    dict[str, str],
    Written(
        ValueType.JSON_OBJECT,
        read=_content_types,
        members=(
            ("Content-Type", "text", "A media type to accept in addition to the extractor's."),
            ("(any name)", "text", "Another media type to accept."),
        ),
    ),
]
_Method = Annotated[Literal["GET", "GET_XE", "POST", "PUT", "PATCH", "DELETE"], ONE_OF]


@dataclass(frozen=True, slots=True)
class SendingSection(Section):
    """Properties of sending: the verb, and whether a request may be sent twice."""

    method: _Method = prop(
        METHOD,
        "Verb of the requests. GET_XE is GET, but puts values into the URI without encoding them. "
        "With POST, PUT, PATCH and DELETE the parameters that are not used elsewhere go into the "
        "body: a JSON object, or a form with the Content-Type "
        "`application/x-www-form-urlencoded`.",
        default="GET",
    )
    repeats_unsafe: Bool = prop(
        "ms.http.retry.unsafe",
        "Whether POST with a row, and PATCH, are sent again if it is unknown whether the source "
        "acted on them. If not, such a request fails, unless it has an idempotency header. POST "
        "without a row counts as a query and is always sent again.",
        default=False,
        identity=False,
    )
    idempotency_header: Text = prop(
        IDEMPOTENCY_HEADER,
        "Header, such as `Idempotency-Key`, with a key of the row that is sent; the key is the "
        "same in every attempt and run, so a receiver that reads it takes each row once. Blank: no "
        "header.",
        default="",
        identity=False,
    )

    @property
    def is_safe(self) -> bool:
        """Return whether requests only read and have no body (RFC 9110 section 9.2.1)."""
        return self.method in {"GET", "GET_XE"}


@dataclass(frozen=True, slots=True)
class ContentTypesSection(Section):
    """The content types of responses that are accepted."""

    content_types: _ContentTypes = prop(
        "ms.http.response.type",
        "More content types to accept; the values count only if there is a `Content-Type`. If one "
        "of them is a type of JSON lines, such as `application/x-ndjson`, every body is read line "
        "by line.",
        default_factory=dict,
        example='{"Content-Type": "application/vnd.api+json"}',
    )

    @property
    def accepted(self) -> tuple[str, ...]:
        """Return the accepted types in lower case; none if no Content-Type is set."""
        if "content-type" not in {name.lower() for name in self.content_types}:
            return ()
        return tuple(media_type.lower() for media_type in self.content_types.values())


@dataclass(frozen=True, slots=True)
class LimitsSection(Section):
    """Limits on the requests of all work units of a run together."""

    rate_limit: Rate | None = prop(
        "ms.http.rate.limit",
        "Most requests per time that all work units of a run together may send, evenly spaced. "
        "Write requests, a slash, and a time in s, min, h or d, such as `10/s`, `600/min` or "
        "`1/2s`. Blank: no limit.",
        default=None,
        identity=False,
    )
    max_requests: Annotated[Int, Ge(0)] = prop(
        BUDGET,
        "Most requests of one run, retries included. Once they are spent, the run ends with "
        "DIL-QUOTA and keeps its finished work, and the next run continues. 0: no limit.",
        default=0,
        identity=False,
    )
