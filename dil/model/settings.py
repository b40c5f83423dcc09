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
    """``ms.pagination``: positions are page start, page size, page number (B8.5)."""

    fields: tuple[str, ...] = Field(default=(), max_length=3)
    initial_values: tuple[int, ...] = Field(default=(), max_length=3, alias="initialvalues")

    @property
    def is_on(self) -> bool:
        """Tell whether pages are to be walked at all."""
        return bool(self.initial_values) or any(name.strip() for name in self.fields)


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
    """``ms.http.statuses``; a missing attribute keeps its default (D-85)."""

    success: tuple[int, ...] = (200, 201, 202)
    warning: tuple[int, ...] = ()
    error: tuple[int, ...] = ()
    pagination_error: tuple[int, ...] = (401,)


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
    """``ms.ssl``; the two time-outs apply to every HTTP client (D-73)."""

    key_store_type: str = Field(default="pkcs12", alias="keyStoreType")
    key_store_path: str = Field(default="", alias="keyStorePath")
    key_store_password: Secret | None = Field(default=None, alias="keyStorePassword")
    key_password: Secret | None = Field(default=None, alias="keyPassword")
    trust_store_path: str = Field(default="", alias="trustStorePath")
    trust_store_password: Secret | None = Field(default=None, alias="trustStorePassword")
    connect_timeout_s: int = Field(default=60, alias="connectionTimeoutSeconds")
    socket_timeout_s: int = Field(default=60, alias="socketTimeoutSeconds")
    version: str = "TLSv1.2"
