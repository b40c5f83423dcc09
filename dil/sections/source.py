"""Properties of a job's source that connectors and the framework both read.

For all sources these are the address, the login, the proxy and TLS. For files and databases they
also decide how work units are made, and which files or rows are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import quote

from annotated_types import Ge, Le

from dil.model.json import JsonValue
from dil.model.messages import nearest
from dil.model.section import (
    ONE_OF,
    Duration,
    Int,
    Regex,
    SecretText,
    Section,
    Text,
    Texts,
    UriTemplate,
    ValueType,
    Written,
    no_effect,
    prop,
)
from dil.model.settings import TlsSettings
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
    findings: list[tuple[str, str]] = []
    kind = settings.key_store_type.lower()
    if kind in _JAVA_STORES:
        findings.append(
            (
                f'keyStoreType is "{settings.key_store_type}", which only Java reads',
                "Convert it: keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12"
                ' -deststoretype PKCS12; then write "keyStoreType":"pkcs12".',
            )
        )
    elif kind not in _STORES:
        findings.append(
            (
                f'keyStoreType is "{settings.key_store_type}"',
                nearest(kind, _STORES, "Write pkcs12 or pem."),
            )
        )
    if settings.version.lower() not in _TLS_VERSIONS:
        findings.append(
            (
                f'version is "{settings.version}", which is no safe version of TLS',
                "Write TLSv1.2 or TLSv1.3.",
            )
        )
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
        findings.append((f"{member} {error}", "Use a local path that exists on every executor."))
        return text
    note_missing(path, around.notice, f"{member} ")
    return path


_Factory = Annotated[str, Written(ValueType.ENUM, words=_FACTORIES)]
_Tls = Annotated[TlsSettings, Written(ValueType.JSON_OBJECT, read=_tls)]


@dataclass(frozen=True, slots=True)
class SourceSection(Section):
    """The address of the data, and the settings of the connection."""

    uri: UriTemplate = prop(
        URI,
        "Address of the data: `https://host/path?query` for HTTP, `https://bucket.host/prefix` "
        "or `s3://bucket/prefix` for S3, `sftp://host:port/path` for SFTP, a path or "
        "`hdfs://host/path` for files. Values of `{{name}}` are URL-encoded for HTTP, and "
        "unchanged for other sources.",
        default="",
        example="https://api.example.com/v1/orders",
        required=True,
        variables=True,
    )
    hosts: Texts = prop(
        "ms.source.uri.hosts",
        "Hosts that values of `{{name}}` may put into `ms.source.uri`, in addition to its own "
        "scheme, host and port: `host`, `host:port` or `https://host`, with commas between; "
        "`*.host` allows any one name before host. Pages and variables may then send the job's "
        "credentials to these hosts.",
        default=(),
        example="files.example.com, *.cdn.example.com:8443",
        identity=False,
    )
    client_factory: _Factory = no_effect(
        "ms.connection.client.factory",
        "DIL's class that makes clients. Both of DIL's classes are accepted; only `ms.ssl` decides "
        "whether there is a client certificate.",
        default=_DEFAULT_FACTORY,
    )
    username: SecretText | None = prop(
        USER,
        "User name for `ms.authentication` without a token, or of an SFTP source; access key of an "
        "S3 source.",
        default=None,
        example="env:API_USER",
    )
    password: SecretText | None = prop(
        PASSWORD,
        "Password that goes with the user name.",
        default=None,
        example="env:API_PASSWORD",
    )
    proxy_host: Text = prop(
        PROXY,
        "Host of the proxy, or `user:${env:NAME}@host` if the proxy asks for a password; used if "
        "the port is given as well.",
        default="",
        identity=False,
    )
    proxy_port: Annotated[Int, Ge(-1), Le(65535)] = prop(
        PROXY_PORT,
        "Port of the proxy, -1 for none.",
        default=-1,
        identity=False,
    )
    tls: _Tls = prop(
        TLS,
        "Client certificate, trust store, least version of TLS, and the time-outs of every "
        "HTTP client (`connectionTimeoutSeconds`, `socketTimeoutSeconds`, 60 each). Host names "
        "are always verified.",
        default_factory=TlsSettings,
        example='{"connectionTimeoutSeconds": 10, "socketTimeoutSeconds": 300}',
        hidden_members="the four passwords",
        identity=False,
    )

    @property
    def proxy(self) -> str:
        """Return the proxy's URL; empty text unless both host and port are set.

        Characters of the login that would end it in a URL are encoded, and an IPv6 address has
        brackets.
        """
        if not self.proxy_host or self.proxy_port <= 0:
            return ""
        scheme, login, host = self.proxy_parts
        place = f"[{host}]" if ":" in host else host
        at = f"{quote(login, safe=':%')}@" if login else ""
        return f"{scheme}://{at}{place}:{self.proxy_port}"

    @property
    def proxy_parts(self) -> tuple[str, str, str]:
        """Return the scheme, the login and the host of the proxy, as they are written."""
        scheme, _, rest = self.proxy_host.rpartition("://")
        login, _, host = rest.rstrip("/").rpartition("@")
        return scheme or "http", login, host.strip("[]")


@dataclass(frozen=True, slots=True)
class FilesSection(Section):
    """The files that a file source reads."""

    settle_ms: Duration | None = prop(
        "ms.source.files.settle",
        "Time since the last write to a file before a file source takes the file, such as `PT10M`. "
        "A listing leaves younger files out; reading a younger file fails, and is tried again "
        "later.",
        default=None,
        identity=False,
    )
    once: Annotated[Literal["none", "version", "path"], ONE_OF] = prop(
        ONCE,
        "Whether each file of a file source is a work unit of its own that is read once. "
        "`version`: a file whose size, time or version at the source has changed is another file, "
        "and is read again, whole. `path`: a path is read once, whatever happens to the file. "
        "`none`: work units read all files that there are.",
        default="none",
    )
    pattern: Regex = prop(
        "ms.source.files.pattern",
        "Only objects (S3) or files (SFTP, HDFS, local) whose whole path matches are read.",
        default=".*",
    )


@dataclass(frozen=True, slots=True)
class DatabaseSection(Section):
    """The rows of a database to read, and their partition."""

    statement: Text = prop(
        STATEMENT,
        "SQL of a database source, run once for each page. Values of `{{name}}` are bound, or "
        "escaped inside quotes; they can never become SQL. A statement that is no query is run for "
        "its effect and gives no rows.",
        default="",
        variables=True,
    )
    key_column: Text = prop(
        KEY_RANGES,
        "Key column by which the rows of `ms.jdbc.statement` are cut into ranges, one work "
        "unit each; rows without a key are a range of their own. The bounds move as the table "
        "grows, so the dataset has to be replaced as a whole (`ms.publish.mode=replace`).",
        default="",
    )
    ranges: Annotated[Int, Ge(1), Le(10_000)] = prop(
        "ms.jdbc.partitions",
        "Number of ranges that `ms.jdbc.partition.column` is cut into.",
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
        "Least time between the end of the datetime watermark and now, such as `PT10M`. Choose a "
        "time longer than a transaction that writes rows with earlier times stays open.",
        default=None,
    )
