"""Frozen models of the JSON properties: parsed once from outside, then passed around as values.

Members keep DIL's spelling in JSON and have Python names here. ``dil.sections.reading`` reads them:
what code makes itself is not checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, MaxLen, MinLen

from dil.model.members import AnyCase, Flag, Setting, Whole, member
from dil.model.secret import Secret

ParameterType = Literal[
    "list", "primitive", "object", "jsonarray", "jsonobject", "watermark",
    "session", "pagestart", "pagesize", "pageno",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter(Setting):
    """One entry of ``ms.parameters`` (rule G34).

    ``value`` is the JSON as written; for type object it holds Parameter values instead. A value
    that was ENC(...) text, or a reference to a secret, is a Secret.
    """

    name: Annotated[str, MinLen(1)] = member(
        "Name of the parameter, sent and usable as `{{name}}`. One that begins with `tmp` is "
        "never sent."
    )
    type: Annotated[ParameterType, AnyCase()] = member(
        "Where the value comes from. `list`: `value` as text, of two elements the first in a "
        "full run and the second in an incremental one. `primitive`: `value` as it is. "
        "`object`: an object of parameters. `jsonarray`, `jsonobject`: `value` as it is. "
        "`watermark`: the low or high watermark. `session`: the session key of the last page."
        " `pagestart`, `pagesize`, `pageno`: of the page that is asked for.",
        default="list",
    )
    value: Any = member(
        "The value; for `watermark` the word `low` or `high` (high when left out), for "
        "`object` one parameter or an array of them, nothing for the last four types. In a "
        "`list` it may be a secret.",
        default=None,
    )
    watermark: str = member(
        "Name of the datetime watermark, the only one there can be; may be left out.", default=""
    )
    format: str = member(
        "Of type `watermark`: `datetime` (needs `pattern`), `epoch-second`, or left out for "
        "epoch milliseconds.",
        default="",
    )
    pattern: str = member(
        "Joda pattern of format `datetime`, or `iso`: ISO 8601 to the second, with an offset.",
        default="",
    )
    timezone: str = member(
        "Zone of format `datetime`; left out it is `ms.timezone`.",
        default="America/Los_Angeles",
        is_default_shown=False,
    )


def inner_parameters(parameter: Parameter) -> tuple[Parameter, ...]:
    """Return the parameters inside one of type object."""
    inner = parameter.value
    return (inner,) if isinstance(inner, Parameter) else tuple(inner or ())


def flat_parameters(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """Yield parameters and those inside them."""
    for parameter in parameters:
        yield parameter
        if parameter.type == "object":
            yield from flat_parameters(inner_parameters(parameter))


@dataclass(frozen=True, slots=True)
class Pagination(Setting):
    """``ms.pagination``: positions are page start, page size, page number (rule G29).

    The members after these are our own. ``next`` and ``more`` name a place of the answer: ``link``
    (the Link header, ``next`` only), ``header:<name>``, or a path in the body. ``next`` holds
    the address of the next page, ``more`` a flag. ``max_pages`` and ``max_rows`` end a walk,
    whatever the source says, or fail it with ``fail_at_cap``. ``equal_pages`` allows two pages in a
    row to be the same. ``strict`` fails a walk where it is in doubt that each row came once.
    """

    fields: Annotated[tuple[str, ...], MaxLen(3)] = member(
        "Paths in the response, dotted or JSONPath, of page start, page size and page number, in "
        "this order; empty texts leave one out.",
        default=(),
    )
    initial_values: Annotated[tuple[Whole, ...], MaxLen(3)] = member(
        "First page start, page size and page number, in this order; what is left out at the "
        "end has no value.",
        name="initialvalues",
        default=(),
    )
    next: str = member(
        "Where the response names the address of its next page: `link` (the Link header), "
        "`header:<name>`, or a path in the body, dotted or JSONPath. Absent, null and empty mean "
        "that there is none.",
        default="",
    )
    more: str = member(
        "Where the response has a flag that there are more pages: `header:<name>`, or a path "
        "in the body, dotted or JSONPath. false, 0, null, `no` and the empty text end the walk.",
        default="",
    )
    max_pages: Annotated[Whole, Ge(1)] | None = member(
        "Most requests of a work unit. Wins over everything; rows may be missing then, and "
        "the report says so.",
        name="maxPages",
        default=None,
    )
    max_rows: Annotated[Whole, Ge(1)] | None = member(
        "Rows after which no further page is asked for; reported as `maxPages` is.",
        name="maxRows",
        default=None,
    )
    fail_at_cap: Flag = member(
        "Whether a work unit fails that reaches a cap while the source has more.",
        name="failAtCap",
        default=False,
    )
    stop_on_short_page: Flag = member(
        "Whether a page with fewer rows than its page size is the last one.",
        name="stopOnShortPage",
        default=False,
    )
    equal_pages: Flag = member(
        "Whether two pages in a row may be the same, byte for byte; else they show that the "
        "source ignores the page parameter, and the work unit fails. Where cursors or "
        "addresses lead on, the report names a page with the rows of the one before.",
        name="allowEqualPages",
        default=False,
    )
    strict: Flag = member(
        "Whether a work unit fails where it is in doubt that every row came, and came once: "
        "the source names a page and answers it without content, pages repeat, a total is not"
        " reached or exceeded, paging ends while more is named, no answer has the place of "
        "`next` or `more`, more rows follow a short page. Else the report says so.",
        default=False,
    )

    @property
    def is_on(self) -> bool:
        """Return whether pages are walked by start, size or number."""
        return bool(self.initial_values) or any(name.strip() for name in self.fields)

    @property
    def is_named(self) -> bool:
        """Return whether answers themselves say that there is another page."""
        return bool(self.next or self.more)

    @property
    def has_cap(self) -> bool:
        """Return whether a walk ends at some number of pages or rows."""
        return self.max_pages is not None or self.max_rows is not None


@dataclass(frozen=True, slots=True)
class SessionCondition(Setting):
    """A pattern that the whole session key must match."""

    regexp: str = member("Java regular expression that the whole key must match.")


@dataclass(frozen=True, slots=True)
class SessionKeyField(Setting):
    """``ms.session.key.field`` (rule G27)."""

    name: Annotated[str, MinLen(1)] = member(
        "Response header, or path in the response, dotted or JSONPath, of the session key. Of a "
        "database: column, or columns separated by commas."
    )
    condition: SessionCondition | None = member(
        "When the session is done: polling ends with success.", default=None
    )
    fail_condition: SessionCondition | None = member(
        "When the session failed: the attempt fails.", name="failCondition", default=None
    )
    init_value: str | None = member(
        "Session key of the first request; left out there is none.", name="initValue", default=None
    )


@dataclass(frozen=True, slots=True)
class HttpStatuses(Setting):
    """``ms.http.statuses``; a missing one keeps its default (rule F20). ``quota`` is our own."""

    success: tuple[Whole, ...] = member("Codes whose response is read.", default=(200, 201, 202))
    warning: tuple[Whole, ...] = member(
        "Codes that count as a response without rows; so do all below 400 that are listed nowhere.",
        default=(),
    )
    error: tuple[Whole, ...] = member(
        "Codes below 400 that fail the attempt; all others from 400 on do. Where rows are "
        "sent, 408, 425, 429 and codes from 500 on that are listed refuse the row.",
        default=(),
    )
    pagination_error: tuple[Whole, ...] = member(
        "Codes that mean a stale token where `ms.secondary.input` gives it.", default=(401,)
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
    """How a derived field is calculated."""

    type: Annotated[
        Literal["epoc", "string", "regexp", "boolean", "int", "integer", "number"], AnyCase()
    ] = member(
        "Type of the result. `epoc`: epoch milliseconds. `string`: text. `regexp`: what group"
        " 1 of `format` finds, else the text `no match`. `boolean`, `int` (also `integer`), "
        "`number`: the text as that."
    )
    source: str = member(
        "A column (path, dotted or JSONPath), `{{name}}`, and for `epoc` also `CURRENTDATE` or "
        "`PnD` (midnight n days ago). Left out, `value` is taken. With `ms.data.field` a path in "
        "the root of the response comes first.",
        default="",
    )
    format: str = member(
        "Of `epoc`: the Joda pattern of the source, or `iso`. Of `regexp`: the Java regular "
        "expression, `(.*)` when left out.",
        default="",
    )
    timezone: str = member(
        "Of `epoc`: the zone of texts that name none; left out it is `ms.timezone`.", default=""
    )
    value: str = member("A fixed value, or the default where the source has none.", default="")


@dataclass(frozen=True, slots=True)
class DerivedField(Setting):
    """One entry of ``ms.derived.fields``."""

    name: Annotated[str, MinLen(1)] = member("Name of the column.")
    formula: Formula = member("How its value is calculated.")


@dataclass(frozen=True, slots=True)
class SchemaCleansing(Setting):
    """``ms.schema.cleansing``; a given object means enabled."""

    enabled: Flag = member("Whether names are cleansed.", default=True)
    pattern: str = member("Java regular expression of what is replaced.", default=r"(\s|\$|@)")
    replacement: str = member("What takes its place.", default="_")
    nullable: Flag = member("Makes every inferred column nullable.", default=False)


@dataclass(frozen=True, slots=True)
class SecondaryRetry(Setting):
    """How long to wait for a secondary input that is not there, and how often."""

    delay_s: Annotated[Whole, Ge(0)] = member(
        "Seconds to wait before each reading.", name="delayInSec", default=300
    )
    count: Annotated[Whole, Ge(0)] = member("How many more readings.", name="retryCount", default=3)


@dataclass(frozen=True, slots=True)
class SecondaryInput(Setting):
    """One entry of ``ms.secondary.input``.

    ``path`` is absolute unless it begins with a variable. Without ``retry`` what is not there is
    an error at once.
    """

    path: Annotated[str, MinLen(1)] = member(
        "A file, or a folder that is read with all below it; names that begin with `_` or `.`"
        " are skipped. Relative, it starts at the folder of the job file. In the path of a "
        "`payload` entry, and nowhere else, `{{name}}` is replaced."
    )
    fields: tuple[str, ...] = member(
        "Columns to take, in this order. JSONPath leads into a column, `$.column.member`, to a "
        "value of the last name.",
        default=(),
    )
    filters: dict[str, str] = member(
        "Column, or JSONPath into one, to Java regular expression: a row counts when the whole "
        "text of each such column matches. Null never does.",
        default_factory=dict,
    )
    category: Literal["activation", "authentication", "payload", "validation"] = member(
        "What the rows are for.", default="activation"
    )
    format: Literal["binary"] | None = member(
        "Of `payload`: left out for rows, binary for whole files.", default=None
    )
    encrypted: bool = member(
        "Whether texts `ENC(...)` in the named fields are decrypted; else they are data like any"
        " other. Fields of `authentication` are decrypted in any case.",
        default=False,
    )
    retry: SecondaryRetry | None = member(
        "Waits for a path that does not exist yet; left out, it is an error at once.", default=None
    )

    @property
    def is_opened(self) -> bool:
        """Return whether the job asks for ENC(...) texts in its fields to be decrypted."""
        return self.encrypted or self.category == "authentication"


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
        "File with the client's certificate, those that vouch for it, and the private key; "
        "the same path wherever tasks run. Relative, it starts at the folder of the job file.",
        name="keyStorePath",
        default="",
    )
    key_store_password: Secret | None = member(
        "Password of the key store.", name="keyStorePassword", default=None
    )
    key_password: Secret | None = member(
        "Password of the private key, where it has one of its own.",
        name="keyPassword",
        default=None,
    )
    trust_store_path: str = member(
        "PKCS#12 or PEM file of the authorities to trust, in place of the system's. Relative,"
        " it starts at the folder of the job file.",
        name="trustStorePath",
        default="",
    )
    trust_store_password: Secret | None = member(
        "Password of the trust store.", name="trustStorePassword", default=None
    )
    connect_timeout_s: Whole = member(
        "How long connecting may take; negative is the default.",
        name="connectionTimeoutSeconds",
        default=60,
    )
    socket_timeout_s: Whole = member(
        "How long the source may be silent; negative is the default.",
        name="socketTimeoutSeconds",
        default=60,
    )
    version: str = member("Least version of TLS: `TLSv1.2` or `TLSv1.3`.", default="TLSv1.2")
