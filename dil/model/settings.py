"""Frozen models of the JSON properties: parsed once from outside, then passed around as values.

Members keep DIL's spelling in JSON and have Python names here. ``dil.config.shape`` reads them, and
is where a wrong value is found: what code makes itself is not checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from dil.model.secret import Secret

# Marks words that are read in this letter case alone, others in any.
EXACT = Meta(extra={"exact": True})


class Setting(Struct, frozen=True):
    """Base of all JSON property models."""


ParameterType = Literal[
    "list", "primitive", "object", "jsonarray", "jsonobject", "watermark",
    "session", "pagestart", "pagesize", "pageno",
]  # fmt: skip


class Parameter(Setting, frozen=True):
    """One entry of ``ms.parameters`` (behaviour.md B6.2).

    ``value`` is the JSON as written; for type object it holds Parameter values instead. A value
    that was ENC(...) text, or a reference to a secret, is a Secret.
    """

    name: Annotated[str, Meta(min_length=1)]
    type: ParameterType = "list"
    value: Any = None  # the JSON edge: its shape depends on the type
    watermark: str = ""
    format: str = ""
    pattern: str = ""
    timezone: str = "America/Los_Angeles"


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


class Pagination(Setting, frozen=True):
    """``ms.pagination``: positions are page start, page size, page number (B8.5).

    The members after these are our own. ``next`` and ``more`` name a place of the answer: ``link``
    (the Link header, ``next`` only), ``header:<name>``, or a dot path in the body. ``next`` holds
    the address of the next page, ``more`` a flag. ``max_pages`` and ``max_rows`` end a walk,
    whatever the source says, or fail it with ``fail_at_cap``. ``equal_pages`` allows two pages in a
    row to be the same. ``strict`` fails a walk where it is in doubt that each row came once.
    """

    fields: Annotated[tuple[str, ...], Meta(max_length=3)] = ()
    initial_values: Annotated[tuple[int, ...], Meta(max_length=3)] = field(
        default=(), name="initialvalues"
    )
    next: str = ""
    more: str = ""
    max_pages: Annotated[int, Meta(ge=1)] | None = field(default=None, name="maxPages")
    max_rows: Annotated[int, Meta(ge=1)] | None = field(default=None, name="maxRows")
    fail_at_cap: bool = field(default=False, name="failAtCap")
    stop_on_short_page: bool = field(default=False, name="stopOnShortPage")
    equal_pages: bool = field(default=False, name="allowEqualPages")
    strict: bool = False

    @property
    def is_on(self) -> bool:
        """Tell whether pages are walked by start, size or number."""
        return bool(self.initial_values) or any(name.strip() for name in self.fields)

    @property
    def is_named(self) -> bool:
        """Tell whether answers themselves say that there is another page."""
        return bool(self.next or self.more)

    @property
    def has_cap(self) -> bool:
        """Tell whether a walk ends at some number of pages or rows."""
        return self.max_pages is not None or self.max_rows is not None


class SessionCondition(Setting, frozen=True):
    """A pattern that the whole session key must match."""

    regexp: str


class SessionKeyField(Setting, frozen=True):
    """``ms.session.key.field`` (B8.4)."""

    name: Annotated[str, Meta(min_length=1)]
    condition: SessionCondition | None = None
    fail_condition: SessionCondition | None = field(default=None, name="failCondition")
    init_value: str | None = field(default=None, name="initValue")


class HttpStatuses(Setting, frozen=True):
    """``ms.http.statuses``; a missing attribute keeps its default (D-85). ``quota`` is our own."""

    success: tuple[int, ...] = (200, 201, 202)
    warning: tuple[int, ...] = ()
    error: tuple[int, ...] = ()
    pagination_error: tuple[int, ...] = (401,)
    quota: tuple[int, ...] = ()


class HttpStatusReasons(Setting, frozen=True):
    """``ms.http.status.reasons``; only ``error`` has an effect (D-42)."""

    error: tuple[str, ...] = ()
    success: tuple[str, ...] = ()
    warning: tuple[str, ...] = ()


class Formula(Setting, frozen=True):
    """How a derived field is calculated (B10)."""

    type: Literal["epoc", "string", "regexp", "boolean", "int", "integer", "number"]
    source: str = ""
    format: str = ""
    timezone: str = ""
    value: str = ""


class DerivedField(Setting, frozen=True):
    """One entry of ``ms.derived.fields``."""

    name: Annotated[str, Meta(min_length=1)]
    formula: Formula


class SchemaCleansing(Setting, frozen=True):
    """``ms.schema.cleansing``; a given object means enabled (D-51)."""

    enabled: bool = True
    pattern: str = r"(\s|\$|@)"
    replacement: str = "_"
    nullable: bool = False


class SecondaryRetry(Setting, frozen=True):
    """How long to wait for a secondary input that is not there, and how often (B4.5)."""

    delay_s: Annotated[int, Meta(ge=0)] = field(default=300, name="delayInSec")
    count: Annotated[int, Meta(ge=0)] = field(default=3, name="retryCount")


class SecondaryInput(Setting, frozen=True):
    """One entry of ``ms.secondary.input`` (B4.2).

    ``path`` is absolute unless it begins with a variable. Without ``retry`` what is not there is
    an error at once.
    """

    path: Annotated[str, Meta(min_length=1)]
    fields: tuple[str, ...] = ()
    filters: dict[str, str] = field(default_factory=dict)
    category: Annotated[Literal["activation", "authentication", "payload", "validation"], EXACT] = (
        "activation"
    )
    format: Annotated[Literal["binary"], EXACT] | None = None
    retry: SecondaryRetry | None = None


class TlsSettings(Setting, frozen=True):
    """``ms.ssl``; the two time-outs, in seconds, apply to every HTTP client (D-73).

    The paths are absolute, empty for none.
    """

    key_store_type: str = field(default="pkcs12", name="keyStoreType")
    key_store_path: str = field(default="", name="keyStorePath")
    key_store_password: Secret | None = field(default=None, name="keyStorePassword")
    key_password: Secret | None = field(default=None, name="keyPassword")
    trust_store_path: str = field(default="", name="trustStorePath")
    trust_store_password: Secret | None = field(default=None, name="trustStorePassword")
    connect_timeout_s: int = field(default=60, name="connectionTimeoutSeconds")
    socket_timeout_s: int = field(default=60, name="socketTimeoutSeconds")
    version: str = "TLSv1.2"
