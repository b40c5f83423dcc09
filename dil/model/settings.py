"""Frozen models of the JSON properties: parsed once from outside, then passed around as values.

Members keep DIL's spelling in JSON and have Python names here. ``dil.sections.reading`` reads and
checks them; a model that code makes itself is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, MaxLen, MinLen

from dil.model.members import AnyCase, Flag, Number, Setting, Whole, member
from dil.model.secret import Secret

ParameterType = Literal[
    "list", "primitive", "object", "jsonarray", "jsonobject", "watermark",
    "session", "pagestart", "pagesize", "pageno",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter(Setting):
    """One entry of ``ms.parameters`` (rule G34).

    ``value`` is the JSON as written; for type object it holds Parameter values instead. A Secret
    takes the place of ENC(...) text and of a reference to a secret.
    """

    name: Annotated[str, MinLen(1)] = member(
        "Name of the parameter, sent and usable as `{{name}}`. A parameter whose name begins with "
        "`tmp` is never sent."
    )
    type: Annotated[ParameterType, AnyCase()] = member(
        "Origin of the value. `list`: `value` as text; if it has two elements, the first in a full "
        "run and the second in an incremental run. `primitive`: `value` as it is. "
        "`object`: an object of parameters. `jsonarray`, `jsonobject`: `value` as it is. "
        "`watermark`: the low or high watermark. `session`: the session key of the last page."
        " `pagestart`, `pagesize`, `pageno`: start, size and number of the page that is requested.",
        default="list",
    )
    value: Any = member(
        "The value. For `watermark`: the word `low` or `high` (high if left out), or `last`, the "
        "last millisecond before `high`, for sources that include the end. For `object`: "
        "one parameter or an array of parameters. The last four types have no value. A value in a "
        "`list` may be a secret.",
        default=None,
    )
    watermark: str = member(
        "Name of the datetime watermark; may be left out, because there can be only one.",
        default="",
    )
    format: str = member(
        "For type `watermark`: `datetime` (needs `pattern`), `epoch-second`, or left out for epoch "
        "milliseconds. For type `session`: `json` sends a key that is an array or object as JSON, "
        "`members` sends each member of a key that is an object as a parameter of its own name; "
        "left out, each key is sent as text.",
        default="",
    )
    pattern: str = member(
        "Joda pattern for format `datetime`, or `iso`: ISO 8601 to the second, with an offset.",
        default="",
    )
    timezone: str = member(
        "Zone for format `datetime`; if left out, `ms.timezone`.",
        default="America/Los_Angeles",
        is_default_shown=False,
    )

    @property
    def is_members(self) -> bool:
        """Return whether each member of the session key is a parameter."""
        return self.type == "session" and self.format == "members"


def inner_parameters(parameter: Parameter) -> tuple[Parameter, ...]:
    """Return the parameters inside a parameter of type object; none for other types."""
    inner = parameter.value
    return (inner,) if isinstance(inner, Parameter) else tuple(inner or ())


def flat_parameters(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """Yield parameters and the parameters inside them."""
    for parameter in parameters:
        yield parameter
        if parameter.type == "object":
            yield from flat_parameters(inner_parameters(parameter))


@dataclass(frozen=True, slots=True)
class Pagination(Setting):
    """``ms.pagination``: positions are page start, page size, page number (rule G29).

    All other members are our own. ``next`` and ``more`` name a place of the response: ``link`` (the
    Link header, ``next`` only), ``header:<name>``, or a path in the body. ``next`` holds the
    address of the next page, ``more`` a flag. ``query_only`` takes only the query of that address.
    ``max_pages`` and ``max_rows`` end a walk even if the source has more; if ``fail_at_cap`` is
    true, the walk then fails. ``equal_pages`` allows two pages in a row to be the same. ``strict``
    fails a walk if it is in doubt that each row came once.
    """

    fields: Annotated[tuple[str, ...], MaxLen(3)] = member(
        "Paths in the response, dotted or JSONPath, of page start, page size and page number, in "
        "this order; an empty text leaves one out.",
        default=(),
    )
    initial_values: Annotated[tuple[Whole, ...], MaxLen(3)] = member(
        "First page start, page size and page number, in this order; numbers left out at the end "
        "have no value.",
        name="initialvalues",
        default=(),
    )
    next: str = member(
        "Place of the next page's address in the response: `link` (the Link header), "
        "`header:<name>`, or a path in the body, dotted or JSONPath. If the address is absent, "
        "null or empty, there is no next page.",
        default="",
    )
    query_only: Flag = member(
        "Whether only the query of the next page's address counts, and scheme, host, port and path "
        "stay as they are: for sources behind a proxy that name themselves by an inner address.",
        name="queryOnly",
        default=False,
    )
    more: str = member(
        "Place of a flag in the response that there are more pages: `header:<name>`, or a path "
        "in the body, dotted or JSONPath. false, 0, null, `no` and the empty text end the walk.",
        default="",
    )
    max_pages: Annotated[Whole, Ge(1)] | None = member(
        "Most requests of a work unit. It wins over all other conditions; rows may then be "
        "missing, and the report says so.",
        name="maxPages",
        default=None,
    )
    max_rows: Annotated[Whole, Ge(1)] | None = member(
        "Number of rows after which no further page is requested; reported like `maxPages`.",
        name="maxRows",
        default=None,
    )
    fail_at_cap: Flag = member(
        "Whether a work unit fails if it reaches a cap while the source has more rows.",
        name="failAtCap",
        default=False,
    )
    stop_on_short_page: Flag = member(
        "Whether a page with fewer rows than its page size is the last one.",
        name="stopOnShortPage",
        default=False,
    )
    equal_pages: Flag = member(
        "Whether two pages in a row may be the same, byte for byte. If not, such pages show that "
        "the source ignores the page parameter, and the work unit fails. If cursors or addresses "
        "lead to the next page, the report names a page that repeats the rows of the page before.",
        name="allowEqualPages",
        default=False,
    )
    strict: Flag = member(
        "Whether a work unit fails if it is in doubt that every row came, and came once: the "
        "source names a page but returns it without content, pages repeat, a total is not reached "
        "or is exceeded, paging ends although the source names more, no response has the place of "
        "`next` or `more`, or more rows follow a short page. If not, the report says so.",
        default=False,
    )

    @property
    def is_on(self) -> bool:
        """Return whether pages are walked by start, size or number."""
        return bool(self.initial_values) or any(name.strip() for name in self.fields)

    @property
    def is_named(self) -> bool:
        """Return whether the responses say that there is another page."""
        return bool(self.next or self.more)

    @property
    def has_cap(self) -> bool:
        """Return whether a number of pages or rows ends the walk."""
        return self.max_pages is not None or self.max_rows is not None


@dataclass(frozen=True, slots=True)
class SessionCondition(Setting):
    """A pattern that the whole session key must match, or another value of an answer."""

    regexp: str = member("Java regular expression that the whole value must match.")


@dataclass(frozen=True, slots=True)
class FailCondition(Setting):
    """The answers that report a failure: those of a session, or those with a value at ``name``.

    LinkedIn's DIL has only ``regexp``.
    """

    name: Annotated[str, MinLen(1)] = member(
        "Path in the response, dotted or JSONPath, or response header, whose value shows a failure;"
        " if left out, the session key. The answer is checked before its rows are read.",
        default="",
    )
    regexp: str | None = member(
        "Java regular expression that the whole value must match. If left out, any value fails the "
        "attempt but null, false, 0, `no`, and an empty text, array or object.",
        default=None,
    )
    retry: SessionCondition | None = member(
        "Condition of a failure that passes: if the value at `name` matches it, the request is sent"
        " again, as after a status 429.",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class SessionKeyField(Setting):
    """``ms.session.key.field`` (rules G27 and G40)."""

    name: Annotated[str, MinLen(1)] = member(
        "Response header, or path in the response, dotted or JSONPath, of the session key. For a "
        "database: a column, or columns separated by commas. It may be left out if `failCondition` "
        "has a `name` of its own.",
        default="",
    )
    condition: SessionCondition | None = member(
        "Condition of a finished session: polling ends with success.", default=None
    )
    fail_condition: FailCondition | None = member(
        "Condition of a failed session or answer: the attempt fails.",
        name="failCondition",
        default=None,
    )
    init_value: str | None = member(
        "Session key of the first request; if left out, the first request has none. It may hold "
        "`{{name}}` of members of the unit.",
        name="initValue",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class HttpStatuses(Setting):
    """``ms.http.statuses``; a missing member has its default (rule F20). ``quota`` is our own."""

    success: tuple[Whole, ...] = member("Codes whose response is read.", default=(200, 201, 202))
    warning: tuple[Whole, ...] = member(
        "Codes that count as a response without rows, like all codes below 400 that no list has.",
        default=(),
    )
    error: tuple[Whole, ...] = member(
        "Codes below 400 that fail the attempt; codes from 400 on that no other list has always "
        "fail it. If rows are sent, 408, 425, 429 and codes from 500 on that are listed here "
        "refuse the row.",
        default=(),
    )
    pagination_error: tuple[Whole, ...] = member(
        "Codes that mean a stale token, if `ms.secondary.input` gives the token.", default=(401,)
    )
    quota: tuple[Whole, ...] = member(
        "Codes from 400 on that mean a spent quota: the run ends with DIL-QUOTA.", default=()
    )


@dataclass(frozen=True, slots=True)
class HttpStatusReasons(Setting):
    """``ms.http.status.reasons``; only ``error`` has an effect."""

    error: tuple[str, ...] = member(
        "Reason phrases that make a response of a `success` code an error.", default=()
    )
    success: tuple[str, ...] = member("Accepted, no effect.", default=())
    warning: tuple[str, ...] = member("Accepted, no effect.", default=())


@dataclass(frozen=True, slots=True)
class Formula(Setting):
    """The formula by which a derived field is calculated."""

    type: Annotated[
        Literal["epoc", "string", "regexp", "boolean", "int", "integer", "number"], AnyCase()
    ] = member(
        "Type of the result. `epoc`: epoch milliseconds. `string`: text. `regexp`: the text that "
        "group 1 of `format` matches, else the text `no match`. `boolean`, `int` (also `integer`), "
        "`number`: the text as a value of this type."
    )
    source: str = member(
        "A column (path, dotted or JSONPath), `{{name}}`, and for `epoc` also `CURRENTDATE` or "
        "`PnD` (midnight n days ago). If left out, `value` is used. With `ms.data.field` a path in "
        "the root of the response comes first.",
        default="",
    )
    format: str = member(
        "For `epoc`: the Joda pattern of the source, or `iso`. For `regexp`: the Java regular "
        "expression, `(.*)` if left out.",
        default="",
    )
    timezone: str = member(
        "For `epoc`: the zone of texts that name none; if left out, `ms.timezone`.", default=""
    )
    value: str = member("A fixed value, or the default if the source has no value.", default="")


@dataclass(frozen=True, slots=True)
class DerivedField(Setting):
    """One entry of ``ms.derived.fields``."""

    name: Annotated[str, MinLen(1)] = member("Name of the column.")
    formula: Formula = member("How its value is calculated.")


@dataclass(frozen=True, slots=True)
class SchemaCleansing(Setting):
    """``ms.schema.cleansing``; a given object means enabled."""

    enabled: Flag = member("Whether names are cleansed.", default=True)
    pattern: str = member(
        "Java regular expression whose matches are replaced.", default=r"(\s|\$|@)"
    )
    replacement: str = member("Text that takes the place of a match.", default="_")
    nullable: Flag = member("Makes every inferred column nullable.", default=False)


@dataclass(frozen=True, slots=True)
class ValidationAttributes(Setting):
    """``ms.validation.attributes``; ``threshold`` is in percent of the expected rows."""

    threshold: Annotated[Number, Ge(0)] = member(
        "Percent of the expected rows. The `validation` entries of `ms.secondary.input` give the "
        "expected rows; without such an entry one row is expected.",
        default=0,
    )
    criteria: Annotated[Literal["fail", "success"], AnyCase()] = member(
        "Whether the counted rows are failures, which have to stay below the threshold, or "
        "successes, which have to reach it.",
        default="fail",
    )
    error_column: str | None = member(
        "Only rows, or items of the only column, with a value in this column (path) count; null "
        "and blank text are no values. If left out, all rows count.",
        name="errorColumn",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class TlsSettings(Setting):
    """``ms.ssl``; the two time-outs, in seconds, apply to every HTTP client.

    The paths are absolute, empty for none.
    """

    key_store_type: str = member(
        "`pkcs12` or `pem`. Java's own `jks` must be converted with keytool.",
        name="keyStoreType",
        default="pkcs12",
    )
    key_store_path: str = member(
        "File with the client's certificate, its intermediate certificates, and the private key; "
        "the path has to be the same on every machine that runs tasks. A relative path starts at "
        "the folder of the job file.",
        name="keyStorePath",
        default="",
    )
    key_store_password: Secret | None = member(
        "Password of the key store.", name="keyStorePassword", default=None
    )
    key_password: Secret | None = member(
        "Password of the private key, if it has one of its own.",
        name="keyPassword",
        default=None,
    )
    trust_store_path: str = member(
        "PKCS#12 or PEM file of the authorities to trust, in place of the system's. A relative "
        "path starts at the folder of the job file.",
        name="trustStorePath",
        default="",
    )
    trust_store_password: Secret | None = member(
        "Password of the trust store.", name="trustStorePassword", default=None
    )
    connect_timeout_s: Whole = member(
        "Most seconds that connecting may take; a negative number means the default.",
        name="connectionTimeoutSeconds",
        default=60,
    )
    socket_timeout_s: Whole = member(
        "Most seconds that the source may be silent; a negative number means the default.",
        name="socketTimeoutSeconds",
        default=60,
    )
    version: str = member("Least version of TLS: `TLSv1.2` or `TLSv1.3`.", default="TLSv1.2")
