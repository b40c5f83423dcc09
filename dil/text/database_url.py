"""Reads URLs of database servers, and the ``jdbc:`` URLs of Java job files (rule F15).

``postgresql://host:5432/database?option=value`` goes to libpq with its options (PostgreSQL
manual, 34.1.1). ``mysql://`` takes some options of the MySQL client: for TLS ssl-mode, ssl-ca,
ssl-cert and ssl-key, and also connect-timeout and unix-socket. No error of this module shows the
URL, because it may hold a password.

``jdbc:`` URLs are translated. Options about TLS are translated or refused, never dropped in
silence; options that tune the Java driver have no meaning here, and are reported as ignored.
Sources: MySQL Connector/J 8 "Security" and "Connection" properties, MariaDB Connector/J "TLS
parameters", pgJDBC "Connection parameters".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import parse_qsl, unquote

from dil.model.database_address import DatabaseAddress, DatabaseUrlError, Server
from dil.model.secret import Secret

_URL = re.compile(
    r"(?P<jdbc>jdbc:)?(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^/?#]*)"
    r"(?:/(?P<database>[^?#]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]*))?")
_SERVERS = {
    "postgresql": Server.POSTGRESQL,
    "postgres": Server.POSTGRESQL,
    "mysql": Server.MYSQL,
    "mariadb": Server.MYSQL,
}
_FORMS = "postgresql://host:5432/database or mysql://host:3306/database"
_MYSQL_OPTIONS = ("ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "connect-timeout", "unix-socket")
_TLS_MODES = {
    "disabled": ("disable",),
    "preferred": ("prefer",),
    "required": ("require", "trust"),
    "verify_ca": ("verify-ca",),
    "verify_identity": ("verify-identity", "verify-full"),
}
_SOCKETS = {"unix-socket", "host", "hostaddr", "service"}
_HIGHEST_PORT = 65535
# Our names of the options that JDBC URLs have for PostgreSQL and MySQL.
_JDBC_POSTGRESQL = {
    "user": "user",
    "password": "password",
    "currentSchema": "schema",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslNegotiation": "sslnegotiation",
    "channelBinding": "channel_binding",
    "gssEncMode": "gssencmode",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "options": "options",
}
_JDBC_MYSQL = {"user": "user", "password": "password", "serverSslCert": "ssl-ca",
               "localSocket": "unix-socket"}  # fmt: skip
_JDBC_MYSQL_TLS = {"sslMode", "useSSL", "useSsl", "requireSSL", "verifyServerCertificate",
                   "trustServerCertificate"}  # fmt: skip
_TARGETS = {"primary": "primary", "master": "primary", "any": "any"}
_ABOUT_TLS = re.compile(r"(?i)ssl|tls|trust|keystore|cert|gssenc|channelbinding")


@dataclass(frozen=True, slots=True)
class ReadUrl:
    """An address, and the names of JDBC options that have no meaning outside of Java."""

    address: DatabaseAddress
    ignored: tuple[str, ...] = ()


def read_database_url(text: str) -> ReadUrl:
    """Return the database that a URL names.

    Raises:
        DatabaseUrlError: the text is no URL of a known server, or an option cannot be kept.
    """
    match = _URL.fullmatch(text.strip())
    if match is None:
        raise DatabaseUrlError("is no URL of a database", f"Write {_FORMS}.")
    server = _SERVERS.get(match["scheme"].lower())
    if server is None:
        raise DatabaseUrlError(
            f"begins with {match['jdbc'] or ''}{match['scheme']}:, which is no known server",
            f"Write {_FORMS}.",
        )
    login, _, place = match["place"].rpartition("@")
    user, _, password = login.partition(":")
    given = dict(parse_qsl(match["query"] or ""))
    options, ignored = _from_jdbc(server, given) if match["jdbc"] else (given, ())
    if server is Server.MYSQL:
        options = _checked_mysql(options)
    user = unquote(user) or options.pop("user", "")
    password = unquote(password) or options.pop("password", "")
    hosts = _hosts(server, place, has_socket=bool(_SOCKETS & options.keys()))
    database = match["database"] or ""
    if not database or "/" in database:
        raise DatabaseUrlError("names no database", f"Write it behind the host: {_FORMS}.")
    address = DatabaseAddress(
        server=server,
        hosts=hosts,
        database=unquote(database),
        user=user,
        password=Secret(password) if password else None,
        schema=options.pop("schema", ""),
        options=tuple(sorted(options.items())),
    )
    return ReadUrl(address, ignored)


def _hosts(server: Server, place: str, *, has_socket: bool) -> tuple[tuple[str, int], ...]:
    if not place and has_socket:
        return ()
    hosts = []
    for text in (place or "localhost").split(","):
        match = _HOST.fullmatch(text)
        if match is None:
            raise DatabaseUrlError("has a host that cannot be read", f"Write {_FORMS}.")
        port = int(match["port"] or server.default_port)
        if not 0 < port <= _HIGHEST_PORT:
            raise DatabaseUrlError(f"has the port {port}", f"Write one from 1 to {_HIGHEST_PORT}.")
        hosts.append((unquote(match["v6"] or match["name"] or "localhost"), port))
    if len(hosts) > 1 and server is Server.MYSQL:
        raise DatabaseUrlError("names several hosts", "Name only the host that accepts writes.")
    return tuple(hosts)


def _from_jdbc(server: Server, given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return our options for those of a JDBC URL, and the names of options without a meaning."""
    if server is Server.POSTGRESQL:
        known = {*_JDBC_POSTGRESQL, "ssl", "targetServerType"}
        fix = "Write sslmode and sslrootcert, with PEM files in place of a key store."
        options = {
            _JDBC_POSTGRESQL[name]: value
            for name, value in given.items()
            if name in _JDBC_POSTGRESQL
        }
        if _is_on(given, "ssl"):
            options.setdefault("sslmode", "verify-full")  # pgJDBC's meaning of ssl=true
        target = given.get("targetServerType")
        if target in _TARGETS:
            options["target_session_attrs"] = _TARGETS[target]
    else:
        known = {*_JDBC_MYSQL, *_JDBC_MYSQL_TLS, "connectTimeout"}
        fix = "Write sslMode and serverSslCert, with a PEM file in place of a key store."
        options = {_JDBC_MYSQL[name]: value for name, value in given.items() if name in _JDBC_MYSQL}
        if mode := _mysql_tls_mode(given):
            options["ssl-mode"] = mode
        timeout_ms = given.get("connectTimeout", "")
        if timeout_ms.isdecimal() and int(timeout_ms):
            options["connect-timeout"] = str(max(1, int(timeout_ms) // 1000))
    ignored = sorted(set(given) - known)
    lost = [name for name in ignored if _ABOUT_TLS.search(name)]
    if lost:
        near = get_close_matches(lost[0], sorted(known), n=1, cutoff=0.8)
        raise DatabaseUrlError(
            f"has the option {lost[0]}, which has no counterpart outside of Java",
            f"Did you mean {near[0]}?" if near else fix,
        )
    return options, tuple(ignored)


def _mysql_tls_mode(given: Mapping[str, str]) -> str:
    """Return ssl-mode by the switches of MySQL's Java drivers, empty if the URL has none."""
    if "sslMode" in given:
        return given["sslMode"].lower()
    switches = {name.lower(): value.lower() for name, value in given.items()}
    if switches.get("usessl") == "false":
        return "disabled"
    if _is_on(switches, "usessl", "requiressl", "verifyservercertificate"):
        if _is_on(switches, "trustservercertificate"):
            return "required"
        if _is_on(switches, "verifyservercertificate"):
            return "verify_ca"
        return "required" if _is_on(switches, "requiressl") else ""
    return ""


def _is_on(given: Mapping[str, str], *names: str) -> bool:
    """Return whether at least one of some switches is given and true."""
    return any(given.get(name, "").lower() in {"true", "1", "yes"} for name in names)


def _checked_mysql(given: dict[str, str]) -> dict[str, str]:
    options = {name.lower().replace("_", "-"): value for name, value in given.items()}
    unknown = sorted(set(options) - {*_MYSQL_OPTIONS, "user", "password"})
    if unknown:
        # A text that does not look like a name may be a password behind a "?" that was not encoded.
        shown = f" {unknown[0]}" if re.fullmatch(r"[a-z][a-z-]*", unknown[0]) else ""
        raise DatabaseUrlError(
            f"has the unknown option{shown}", f"Known options: {', '.join(_MYSQL_OPTIONS)}."
        )
    if not options.get("connect-timeout", "1").isdecimal():
        raise DatabaseUrlError("has a connect-timeout that is no number", "Write whole seconds.")
    if "ssl-mode" in options:
        word = options["ssl-mode"].lower()
        modes = [mode for mode, others in _TLS_MODES.items() if word in {mode, *others}]
        if not modes:
            raise DatabaseUrlError(
                "has an unknown ssl-mode", f"Known words: {', '.join(_TLS_MODES)}."
            )
        options["ssl-mode"] = modes[0]
    return options
