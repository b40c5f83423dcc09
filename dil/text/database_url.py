"""Reads URLs of database servers, and the ``jdbc:`` URLs of Java job files (rule F15).

``postgresql://host:5432/database?option=value`` goes to libpq with its options (PostgreSQL
manual, 34.1.1). ``mysql://`` takes some options of the MySQL client: for TLS ssl-mode, ssl-ca,
ssl-cert and ssl-key, and also connect-timeout and unix-socket. ``jdbc:`` URLs are translated. No
error of this module shows the URL, because it may hold a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from dil.model.database_address import DatabaseAddress, DatabaseUrlError, Server
from dil.model.secret import Secret
from dil.text.jdbc_options import OptionError, mysql_options, postgresql_options

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
    options, ignored = _options(server, match["query"] or "", is_jdbc=bool(match["jdbc"]))
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
    hosts = tuple(_host(server, part) for part in (place or "localhost").split(","))
    if len(hosts) > 1 and server is Server.MYSQL:
        raise DatabaseUrlError("names several hosts", "Name only the host that accepts writes.")
    return hosts


def _host(server: Server, text: str) -> tuple[str, int]:
    match = _HOST.fullmatch(text)
    if match is None:
        raise DatabaseUrlError("has a host that cannot be read", f"Write {_FORMS}.")
    port = int(match["port"] or server.default_port)
    if not 0 < port <= _HIGHEST_PORT:
        raise DatabaseUrlError(f"has the port {port}", f"Write one from 1 to {_HIGHEST_PORT}.")
    return unquote(match["v6"] or match["name"] or "localhost"), port


def _options(
    server: Server, query: str, *, is_jdbc: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    pairs = parse_qsl(query, keep_blank_values=True)
    given = {name: value for name, value in pairs if value}
    try:
        if server is Server.POSTGRESQL:
            return postgresql_options(given) if is_jdbc else (given, ())
        options, ignored = mysql_options(given) if is_jdbc else (given, ())
        return _checked_mysql(options), ignored
    except OptionError as error:
        raise DatabaseUrlError(error.what, error.fix) from None


def _checked_mysql(given: dict[str, str]) -> dict[str, str]:
    options = {name.lower().replace("_", "-"): value for name, value in given.items()}
    unknown = sorted(set(options) - {*_MYSQL_OPTIONS, "user", "password"})
    if unknown:
        # A text that does not look like a name may be a password behind a "?" that was not encoded.
        shown = f" {unknown[0]}" if re.fullmatch(r"[a-z][a-z-]*", unknown[0]) else ""
        raise OptionError(
            f"has the unknown option{shown}", f"Known options: {', '.join(_MYSQL_OPTIONS)}."
        )
    if not options.get("connect-timeout", "1").isdecimal():
        raise OptionError("has a connect-timeout that is no number", "Write whole seconds.")
    if "ssl-mode" in options:
        word = options["ssl-mode"].lower()
        modes = [mode for mode, others in _TLS_MODES.items() if word in {mode, *others}]
        if not modes:
            raise OptionError("has an unknown ssl-mode", f"Known words: {', '.join(_TLS_MODES)}.")
        options["ssl-mode"] = modes[0]
    return options
