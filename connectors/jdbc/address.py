"""Reads the address of a database from a ``jdbc:`` URL as Java job files write it, without I/O.

No error shows the URL, because it may hold a password. DIL ignores options of the URL that only
tune the Java driver and change no row. It obeys any other option, or refuses it by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from urllib.parse import parse_qsl, quote, unquote, urlencode

from connectors.address import AddressError
from connectors.jdbc.syntax import Kind
from dil.errors import ConfigError
from dil.model.database_address import DatabaseAddress, DatabaseUrlError
from dil.model.json import JsonValue
from dil.model.secret import Secret
from dil.text.database_url import read_database_url
from dil.text.origins import NetworkOrigin, refuse_other_origin, refuse_way_out
from dil.text.variables import substitute

FORMS = (
    "Write jdbc:postgresql://host:5432/database, jdbc:mysql://host:3306/database,"
    " jdbc:mariadb://host:3306/database, jdbc:sqlite:/path/to/file, jdbc:duckdb:/path/to/file,"
    " jdbc:sqlserver://host:1433;databaseName=name or jdbc:oracle:thin:@//host:1521/service."
)
_KINDS = ", ".join(f"jdbc:{kind}:" for kind in Kind)
# Options that tune the Java driver and change no value that is read.
_TUNING = frozenset(
    name.lower()
    for name in (
        "prepareThreshold", "preparedStatementCacheQueries", "preparedStatementCacheSizeMiB",
        "defaultRowFetchSize", "rewriteBatchedStatements", "reWriteBatchedInserts", "useUnicode",
        "characterEncoding", "characterSetResults", "connectionCollation", "autoReconnect",
        "allowPublicKeyRetrieval", "cachePrepStmts", "prepStmtCacheSize", "prepStmtCacheSqlLimit",
        "useServerPrepStmts", "useCursorFetch", "useLocalSessionState", "useCompression",
        "maintainTimeStats", "cacheServerConfiguration", "cacheResultSetMetadata",
        "elideSetAutoCommits", "allowMultiQueries", "tcpKeepAlive", "binaryTransfer",
        "loggerLevel", "readOnly", "assumeMinServerVersion", "stringtype", "defaultFetchSize",
        "useLegacyDatetimeCode", "yearIsDateType", "transformedBitIsBoolean",
        "noAccessToProcedureBodies", "disableMariaDbDriver", "permitMysqlScheme", "log4jLogger",
    )
)  # fmt: skip
_ZONES = {"servertimezone", "connectiontimezone", "timezone"}
_UTC = {"utc", "gmt", "z", "+00:00", "etc/utc", "gmt+0", "gmt+00:00"}
_SERVER = re.compile(
    r"//(?P<host>[^\\:;/]+)(?:\\[^:;]*)?(?::(?P<port>[0-9]+))?(?P<rest>(?:;.*)?)", re.DOTALL
)
_ORACLE = re.compile(
    r"thin:(?:(?P<user>[^/@]*)/(?P<password>[^@]*))?@(?://)?(?P<host>[^:/?]+)"
    r"(?::(?P<port>[0-9]+))?(?P<mark>[:/])(?P<name>[^?/:]+)"
)
_PLACE = re.compile(
    r"(?P<kind>jdbc:[a-z0-9]+):(?P<place>[^?;]*)(?P<options>[?;].*)?", re.IGNORECASE | re.DOTALL
)
# The option of SQL Server and other databases that names the database.
_DATABASE = re.compile(r"(?<=[?;&])database(?:name)?=[^;&]*", re.IGNORECASE)
_DECODED = re.compile(r"jdbc:(?:postgresql|mysql|mariadb):", re.IGNORECASE)
_FILE_URL = re.compile(r"jdbc:(?:sqlite|duckdb):file:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JdbcAddress:
    """The address of one database.

    ``path`` is the path of a database file, empty for a database in memory; ``server`` is the
    address of a server. ``timeout_s`` is the longest silence of a server in seconds, 0 if the URL
    gives none. If ``nulls_dates`` is true, impossible dates become null; if ``has_flags`` is true,
    a tinyint(1) is a boolean. ``options`` are for the drivers of SQL Server and Oracle. ``ignored``
    are the names of options that have no meaning here.
    """

    kind: Kind
    server: DatabaseAddress | None = None
    path: str = ""
    user: str = ""
    password: Secret | None = None
    timeout_s: float = 0.0
    nulls_dates: bool = False
    has_flags: bool = False
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ignored: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the address without user, password and options."""
        if self.server is not None:
            place = str(self.server).partition("://")[2]
            return f"jdbc:{self.kind}://{place}"
        return f"jdbc:{self.kind}:{self.path}"


def filled_address(template: str, known: Mapping[str, JsonValue], hosts: Iterable[str] = ()) -> str:
    """Return ``ms.source.uri`` with values for its variables; they may name a database or a file.

    Args:
        template: The address. Values are encoded if ``read_address`` decodes such an address.
        known: Values for ``{{name}}``.
        hosts: ``ms.source.uri.hosts``.

    Raises:
        ConfigError: a variable has no value; or a value leads to another server, chooses the user
            or an option, or leads out of the folder of a file.
    """
    refuse_way_out(template, known)
    encode: Callable[[str], str] | None = None
    if _DECODED.match(template):
        encode = partial(quote, safe="")
    elif _FILE_URL.match(template):
        encode = quote
    found = substitute(template, known, encode)
    if found.missing:
        name = min(found.missing)
        raise ConfigError.single(
            "ms.source.uri", f"needs {{{{{name}}}}}, which has no value in this request"
        )
    refuse_other_origin(template, found.text, _origin_of, hosts)
    return found.text


def _origin_of(text: str) -> NetworkOrigin:
    """Return the server of an address for any Java driver; the database's name is left out.

    Raises:
        AddressError: the text is no address of a database.
    """
    match = _PLACE.fullmatch(text)
    if match is None:
        raise AddressError("is no address of a database", FORMS)
    scheme, place = match["kind"].lower(), match["place"]
    options = _DATABASE.sub("", match["options"] or "")
    if scheme.removeprefix("jdbc:") in {Kind.SQLITE, Kind.DUCKDB}:
        return NetworkOrigin(scheme, rest=options)
    driver, mark, rest = place.partition("//")
    if not mark:
        driver, mark, rest = place.rpartition("@")
    authority = rest.partition("/")[0] if mark else ""
    user, _, server = authority.rpartition("@")
    host, _, port = server.partition(":")
    port = port.partition(":")[0]
    chosen = (driver, user, options) if driver or user or options else ()
    if "," in server or not port.isdecimal():
        return NetworkOrigin(scheme, server.lower(), None, chosen)
    return NetworkOrigin(scheme, host.lower(), int(port), chosen)


@lru_cache(maxsize=16)  # All attempts of a task ask the same database.
def read_address(text: str) -> JdbcAddress:
    """Return the database that a ``jdbc:`` URL names.

    Raises:
        AddressError: the URL names no database, or has an option that DIL cannot obey.
    """
    match = re.fullmatch(r"jdbc:([A-Za-z0-9]+):(.*)", text.strip(), re.DOTALL)
    if match is None:
        is_bare = text.strip().lower().startswith("jdbc://")
        what = "does not say which database it is" if is_bare else "is no address of a database"
        raise AddressError(what, FORMS)
    word = match[1].lower()
    if word not in set(Kind):
        raise AddressError(
            f"begins with jdbc:{word}:, which is not known", f"Write one of: {_KINDS}."
        )
    kind = Kind(word)
    if kind.is_file:
        return _file(kind, match[2])
    if kind is Kind.SQLSERVER:
        return _sqlserver(match[2])
    return _oracle(match[2]) if kind is Kind.ORACLE else _server(kind, match[2])


def _server(kind: Kind, rest: str) -> JdbcAddress:
    if kind is Kind.POSTGRESQL and not rest.startswith("//"):
        rest = f"//localhost/{rest.lstrip('/')}"
    if not rest.startswith("//"):
        raise AddressError("has the form of several servers, or of none", FORMS)
    place, mark, query = rest.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    silence = given.pop("socketTimeout", "")
    if silence and not silence.isdecimal():
        raise AddressError("has a socketTimeout that is not a number", "Write a whole number.")
    timeout_s = int(silence or 0) / (1000 if kind.is_mysql else 1)  # MySQL gives milliseconds

    # Options that change values are obeyed here, or refused by name.
    dates = given.pop("zeroDateTimeBehavior", "").lower().replace("_", "")
    if dates not in {"", "converttonull", "exception"}:
        raise AddressError(
            "has a zeroDateTimeBehavior that changes values", "Write CONVERT_TO_NULL or EXCEPTION."
        )
    has_flags = given.pop("tinyInt1isBit", "").lower() == "true"
    for name in [each for each in given if each.lower() in _ZONES]:
        if given.pop(name).lower() not in _UTC:
            raise AddressError(
                f"has the option {name} with another zone than UTC",
                "DIL's sessions use UTC. Leave the option out, and set `timezone` of the"
                " parameter in ms.parameters to UTC.",
            )

    kept = {name: value for name, value in given.items() if name.lower() not in _TUNING}
    try:
        read = read_database_url(f"jdbc:{kind}:{place}{mark}{urlencode(kept)}")
    except DatabaseUrlError as error:
        raise AddressError(error.what, error.fix) from None
    if read.ignored:
        raise AddressError(
            f"has the option {read.ignored[0]}, which is not known here",
            "Leave the option out if it changes no value; docs/databases.md lists the options.",
        )
    tuning = tuple(sorted(set(given) - set(kept)))
    server = read.address
    return JdbcAddress(
        kind,
        replace(server, user="", password=None),
        user=server.user,
        password=server.password,
        timeout_s=timeout_s,
        nulls_dates=dates == "converttonull",
        has_flags=has_flags,
        ignored=tuning,
    )


def _file(kind: Kind, rest: str) -> JdbcAddress:
    path, _, query = rest.partition("?")
    path, _, semicolons = path.partition(";")
    options = [name for name, _ in parse_qsl(query, keep_blank_values=True)]
    if options or semicolons:
        name = options[0] if options else semicolons.partition("=")[0]
        raise AddressError(
            f"has the option {name}, which is not known here", f"Write jdbc:{kind}:/path/to/file."
        )
    if path == ":memory:":
        path = ""
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:"))
        path = re.sub(r"\A//(?=/)", "", path)
    return JdbcAddress(kind, path=path)


def _sqlserver(rest: str) -> JdbcAddress:
    match = _SERVER.fullmatch(rest)
    if match is None:
        raise AddressError("cannot be read as an address of SQL Server", FORMS)
    options = dict(part.split("=", 1) for part in match["rest"].split(";") if "=" in part)
    lower = {name.strip().lower(): value.strip() for name, value in options.items()}
    user, password = lower.pop("user", ""), lower.pop("password", "")
    database = lower.pop("databasename", "") or lower.pop("database", "")
    known = {"encrypt", "trustservercertificate"}
    unknown = sorted(set(lower) - known)
    if unknown:
        raise AddressError(f"has the option {unknown[0]}, which is not known here", FORMS)
    place = (("host", match["host"]), ("port", match["port"] or "1433"), ("database", database))
    return JdbcAddress(
        Kind.SQLSERVER,
        path=f"//{match['host']}:{match['port'] or 1433}/{database}",
        user=user,
        password=Secret(password) if password else None,
        options=(*place, *sorted(lower.items())),
    )


def _oracle(rest: str) -> JdbcAddress:
    match = _ORACLE.fullmatch(rest)
    if match is None:
        raise AddressError("cannot be read as an address of Oracle", FORMS)
    name = "sid" if match["mark"] == ":" else "service_name"
    place = (("host", match["host"]), ("port", match["port"] or "1521"), (name, match["name"]))
    return JdbcAddress(
        Kind.ORACLE,
        path=f"//{match['host']}:{match['port'] or 1521}/{match['name']}",
        user=match["user"] or "",
        password=Secret(match["password"]) if match["password"] else None,
        options=place,
    )
