"""Properties of a job's source that connectors and the framework both read.

For all sources: the address, the login, the proxy, TLS. For files and databases: how work units are
made, and which files or rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Ge, Le

from dil.model.json import JsonValue
from dil.model.section import (
    ONE_OF,
    Duration,
    Int,
    Regex,
    Scope,
    SecretText,
    Section,
    Support,
    Text,
    Texts,
    UriTemplate,
    ValueType,
    Written,
    prop,
)
from dil.model.settings import TlsSettings
from dil.model.suggestions import nearest
from dil.sections.reading import ReadContext, ShapeError, as_object, build, note_missing

URI = "ms.source.uri"
USER, PASSWORD = "source.conn.username", "source.conn.password"
PROXY, PROXY_PORT = "source.conn.use.proxy.url", "source.conn.use.proxy.port"
TLS = "ms.ssl"
ONCE = "ms.source.files.once"
STATEMENT = "ms.jdbc.statement"
KEY_RANGES = "ms.jdbc.partition.column"
_DEFAULT_FACTORY = "com.linkedin.cdi.factory.DefaultConnectionClientFactory"
_FACTORIES = (
    _DEFAULT_FACTORY,
    "DefaultConnectionClientFactory",
    "com.linkedin.cdi.factory.SecureConnectionClientFactory",
    "SecureConnectionClientFactory",
)
_STORES = ("pkcs12", "p12", "pfx", "pem")
_JAVA_STORES = ("jks", "jceks")
_TLS_VERSIONS = ("tls", "tlsv1.2", "tlsv1.3")
_TLS_SECRETS = ("keyStorePassword", "keyPassword", "trustStorePassword")


def _tls(value: JsonValue, around: ReadContext) -> TlsSettings:
    members: dict[str, object] = dict(as_object(value))
    for name in _TLS_SECRETS:
        text = members.get(name)
        if isinstance(text, str):
            members[name] = around.secret(text, name) if text else None
    settings = build(TlsSettings, members)
    findings = [*_tls_findings(settings)]
    located = replace(
        settings,
        key_store_path=_located("keyStorePath", settings.key_store_path, around, findings),
        trust_store_path=_located("trustStorePath", settings.trust_store_path, around, findings),
        # Negative time-outs act as the default (``ms.ssl``).
        connect_timeout_s=_positive(settings.connect_timeout_s),
        socket_timeout_s=_positive(settings.socket_timeout_s),
    )
    if findings:
        raise ShapeError(*findings)
    return located


def _positive(seconds: int) -> int:
    return 60 if seconds < 0 else seconds


def _located(member: str, text: str, around: ReadContext, findings: list[tuple[str, str]]) -> str:
    if not text:
        return ""
    try:
        path = around.local_path(text)
    except ValueError as error:
        findings.append((f"{member} {error}", "Use a local path that every executor has."))
        return text
    note_missing(path, around.notice, f"{member} ")
    return path


def _tls_findings(settings: TlsSettings) -> Iterator[tuple[str, str]]:
    """Yield the problems of the kind of key store and the version of TLS."""
    kind = settings.key_store_type.lower()
    if kind in _JAVA_STORES:
        yield (
            f'keyStoreType is "{settings.key_store_type}", which only Java reads',
            "Convert it: keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12"
            ' -deststoretype PKCS12; then write "keyStoreType":"pkcs12".',
        )
    elif kind not in _STORES:
        yield (
            f'keyStoreType is "{settings.key_store_type}"',
            nearest(kind, _STORES, "Write pkcs12 or pem."),
        )
    if settings.version.lower() not in _TLS_VERSIONS:
        yield (
            f'version is "{settings.version}", which is no version of TLS that is safe',
            "Write TLSv1.2 or TLSv1.3.",
        )


_Factory = Annotated[str, Written(ValueType.ENUM, words=_FACTORIES)]
_Tls = Annotated[TlsSettings, Written(ValueType.JSON_OBJECT, read=_tls)]


@dataclass(frozen=True, slots=True)
class SourceSection(Section):
    """The address of the data, and the settings of the connection."""

    uri: UriTemplate = prop(
        "ms.source.uri",
        "Where the data is: `https://host/path?query` for HTTP, `https://bucket.host/prefix` "
        "or `s3://bucket/prefix` for S3, `sftp://host:port/path` for SFTP, a path or "
        "`hdfs://host/path` for files. Values put in for `{{name}}` are URL-encoded for HTTP, "
        "and put in as they are for the others.",
        default="",
        example="https://api.example.com/v1/orders",
        required=True,
        variables=True,
        scope=Scope.TASK,
    )
    hosts: Texts = prop(
        "ms.source.uri.hosts",
        "Where values of `{{name}}` may lead `ms.source.uri` beside its own scheme, host and port: "
        "`host`, `host:port` or `https://host`, with commas between; `*.host` is any one name "
        "before it. Pages and variables may then lead there with the job's credentials.",
        default=(),
        example="files.example.com, *.cdn.example.com:8443",
        scope=Scope.TASK,
        identity=False,
    )
    client_factory: _Factory = prop(
        "ms.connection.client.factory",
        "DIL's class that makes clients. Both are taken; `ms.ssl` alone decides whether there is "
        "a client certificate.",
        default=_DEFAULT_FACTORY,
        scope=Scope.TASK,
        support=Support.NO_EFFECT,
        identity=False,
    )
    username: SecretText | None = prop(
        "source.conn.username",
        "User name: for `ms.authentication` without a token, of an SFTP source; the access key "
        "of an S3 source.",
        default=None,
        example="env:API_USER",
        scope=Scope.TASK,
    )
    password: SecretText | None = prop(
        "source.conn.password",
        "Password that goes with the user name.",
        default=None,
        example="env:API_PASSWORD",
        scope=Scope.TASK,
    )
    proxy_host: Text = prop(
        "source.conn.use.proxy.url",
        "Host of the proxy; used when the port is given as well.",
        default="",
        scope=Scope.TASK,
        identity=False,
    )
    proxy_port: Annotated[Int, Ge(-1), Le(65535)] = prop(
        "source.conn.use.proxy.port",
        "Port of the proxy, -1 for none.",
        default=-1,
        scope=Scope.TASK,
        identity=False,
    )
    tls: _Tls = prop(
        "ms.ssl",
        "Client certificate, trust store, least version of TLS, and the time-outs of every "
        "HTTP client (`connectionTimeoutSeconds`, `socketTimeoutSeconds`, 60 each). Host names "
        "are always verified.",
        default_factory=TlsSettings,
        example='{"connectionTimeoutSeconds": 10, "socketTimeoutSeconds": 300}',
        hidden_members="the four passwords",
        scope=Scope.TASK,
        identity=False,
    )

    @property
    def proxy(self) -> str:
        """Return the proxy's address, empty for none: host and port are both needed."""
        if not self.proxy_host or self.proxy_port <= 0:
            return ""
        scheme = "" if "://" in self.proxy_host else "http://"
        return f"{scheme}{self.proxy_host}:{self.proxy_port}"


@dataclass(frozen=True, slots=True)
class FilesSection(Section):
    """The choice of files of a file source."""

    settle_ms: Duration | None = prop(
        "ms.source.files.settle",
        "How long a file must not have been written to before a file source takes it, such as "
        "`PT10M`. A list leaves younger ones out; reading fails, and is tried again later.",
        default=None,
        scope=Scope.TASK,
        identity=False,
    )
    once: Annotated[Literal["none", "version", "path"], ONE_OF] = prop(
        "ms.source.files.once",
        "Whether each file of a file source is a work unit of its own that is read once. "
        "`version`: a file is another one when its size, its time or its version at the source "
        "changed, and is read again, whole. `path`: a path is read once, whatever becomes of "
        "it. `none`: work units read all files that there are.",
        default="none",
    )
    pattern: Regex = prop(
        "ms.source.files.pattern",
        "Keeps the objects (S3) or files (SFTP, HDFS, local) whose whole path matches.",
        default=".*",
        scope=Scope.TASK,
    )


@dataclass(frozen=True, slots=True)
class DatabaseSection(Section):
    """The rows of a database to read, and their partition."""

    statement: Text = prop(
        "ms.jdbc.statement",
        "SQL of a database source, run once for each page. Values put in for `{{name}}` are "
        "bound, inside quotes escaped; they can never become SQL. A statement that is no query "
        "is run for its effect and gives no rows.",
        default="",
        variables=True,
        scope=Scope.TASK,
    )
    key_column: Text = prop(
        "ms.jdbc.partition.column",
        "Key column by which the rows of `ms.jdbc.statement` are cut into ranges, one work "
        "unit each; rows without a key are a range of their own. The bounds move as the table "
        "grows, so the dataset has to be replaced as a whole (`ms.publish.mode=replace`).",
        default="",
    )
    ranges: Annotated[Int, Ge(1), Le(10_000)] = prop(
        "ms.jdbc.partitions",
        "How many ranges `ms.jdbc.partition.column` is cut into.",
        default=8,
    )
    ranges_by: Annotated[Literal["range", "quantile"], ONE_OF] = prop(
        "ms.jdbc.partition.by",
        "How `ms.jdbc.partition.column` is cut: into ranges of equal width (`range`, whole "
        "numbers only), or of equal numbers of rows (`quantile`).",
        default="range",
    )
    cursor_delay_ms: Duration | None = prop(
        "ms.jdbc.cursor.delay",
        "How long before now the datetime watermark ends at the latest, such as `PT10M`: "
        "longer than transactions that write rows with an earlier time are open.",
        default=None,
    )
