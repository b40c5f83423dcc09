"""Frozen models of the JSON properties: parsed once from outside, then passed around as values.

Numbers and booleans may be written as strings (spec README 22); pydantic's lax mode reads both.
Members keep DIL's spelling as aliases and have Python names here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dil.model.secret import Secret


def lower(value: object) -> object:
    """Return a text in lower case, anything else as it is: words are read in any case."""
    return value.lower() if isinstance(value, str) else value


class Setting(BaseModel):
    """Base of all JSON property models: frozen, no unknown members."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, arbitrary_types_allowed=True
    )


ParameterType = Annotated[
    Literal[
        "list", "primitive", "object", "jsonarray", "jsonobject", "watermark",
        "session", "pagestart", "pagesize", "pageno",
    ],
    BeforeValidator(lower),
]  # fmt: skip


class Parameter(Setting):
    """One entry of ``ms.parameters`` (behaviour.md B6.2).

    ``value`` is the JSON as written; for type object it holds Parameter values instead. A value
    that was ENC(...) text, or a reference to a secret, is a Secret.
    """

    name: str = Field(min_length=1)
    type: ParameterType = "list"
    value: Any = None  # the JSON edge: its shape depends on the type
    watermark: str = ""
    format: str = ""
    pattern: str = ""
    timezone: str = "America/Los_Angeles"


class Pagination(Setting):
    """``ms.pagination``: positions are page start, page size, page number (B8.5).

    The members after these are our own. ``next`` and ``more`` name a place of the answer: ``link``
    (the Link header, ``next`` only), ``header:<name>``, or a dot path in the body. ``next`` holds
    the address of the next page, ``more`` a flag. ``max_pages`` and ``max_rows`` end a walk,
    whatever the source says, or fail it with ``fail_at_cap``. ``equal_pages`` allows two pages in a
    row to be the same.
    """

    fields: tuple[str, ...] = Field(default=(), max_length=3)
    initial_values: tuple[int, ...] = Field(default=(), max_length=3, alias="initialvalues")
    next: str = ""
    more: str = ""
    max_pages: int | None = Field(default=None, ge=1, alias="maxPages")
    max_rows: int | None = Field(default=None, ge=1, alias="maxRows")
    fail_at_cap: bool = Field(default=False, alias="failAtCap")
    stop_on_short_page: bool = Field(default=False, alias="stopOnShortPage")
    equal_pages: bool = Field(default=False, alias="allowEqualPages")

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


class SessionCondition(Setting):
    """A pattern that the whole session key must match."""

    regexp: str


class SessionKeyField(Setting):
    """``ms.session.key.field`` (B8.4)."""

    name: str = Field(min_length=1)
    condition: SessionCondition | None = None
    fail_condition: SessionCondition | None = Field(default=None, alias="failCondition")
    init_value: str | None = Field(default=None, alias="initValue", coerce_numbers_to_str=True)


class HttpStatuses(Setting):
    """``ms.http.statuses``; a missing attribute keeps its default (D-85). ``quota`` is our own."""

    success: tuple[int, ...] = (200, 201, 202)
    warning: tuple[int, ...] = ()
    error: tuple[int, ...] = ()
    pagination_error: tuple[int, ...] = (401,)
    quota: tuple[int, ...] = ()


class HttpStatusReasons(Setting):
    """``ms.http.status.reasons``; only ``error`` has an effect (D-42)."""

    error: tuple[str, ...] = ()
    success: tuple[str, ...] = ()
    warning: tuple[str, ...] = ()


class Formula(Setting):
    """How a derived field is calculated (B10)."""

    type: Annotated[
        Literal["epoc", "string", "regexp", "boolean", "int", "integer", "number"],
        BeforeValidator(lower),
    ]
    source: str = ""
    format: str = ""
    timezone: str = ""
    value: str = ""


class DerivedField(Setting):
    """One entry of ``ms.derived.fields``."""

    name: str = Field(min_length=1)
    formula: Formula


class SchemaCleansing(Setting):
    """``ms.schema.cleansing``; a given object means enabled (D-51)."""

    enabled: bool = True
    pattern: str = r"(\s|\$|@)"
    replacement: str = "_"
    nullable: bool = False


class SecondaryRetry(Setting):
    """How long to wait for a secondary input that is not there, and how often (B4.5)."""

    delay_s: int = Field(default=300, ge=0, alias="delayInSec")
    count: int = Field(default=3, ge=0, alias="retryCount")


class SecondaryInput(Setting):
    """One entry of ``ms.secondary.input`` (B4.2).

    ``path`` is absolute unless it begins with a variable. Without ``retry`` what is not there is
    an error at once.
    """

    path: str = Field(min_length=1)
    fields: tuple[str, ...] = ()
    filters: dict[str, str] = Field(default_factory=dict)
    category: Literal["activation", "authentication", "payload", "validation"] = "activation"
    format: Literal["binary"] | None = None
    retry: SecondaryRetry | None = None


class TlsSettings(Setting):
    """``ms.ssl``; the two time-outs, in seconds, apply to every HTTP client (D-73).

    The paths are absolute, empty for none.
    """

    key_store_type: str = Field(default="pkcs12", alias="keyStoreType")
    key_store_path: str = Field(default="", alias="keyStorePath")
    key_store_password: Secret | None = Field(default=None, alias="keyStorePassword")
    key_password: Secret | None = Field(default=None, alias="keyPassword")
    trust_store_path: str = Field(default="", alias="trustStorePath")
    trust_store_password: Secret | None = Field(default=None, alias="trustStorePassword")
    connect_timeout_s: int = Field(default=60, alias="connectionTimeoutSeconds")
    socket_timeout_s: int = Field(default=60, alias="socketTimeoutSeconds")
    version: str = "TLSv1.2"
