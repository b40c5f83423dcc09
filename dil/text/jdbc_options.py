"""Translates options of JDBC URLs to the options of other drivers.

Options about TLS are translated or refused, never dropped in silence. Options that tune the Java
driver have no meaning here, and are reported as ignored. Sources: MySQL Connector/J 8 "Security"
and "Connection" properties, MariaDB Connector/J "TLS parameters", pgJDBC "Connection parameters".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

_ABOUT_TLS = re.compile(r"(?i)ssl|tls|trust|keystore|cert|gssenc|channelbinding")
_POSTGRESQL = {
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
_MYSQL = {"user": "user", "password": "password", "serverSslCert": "ssl-ca", "localSocket":
          "unix-socket"}  # fmt: skip
_MYSQL_TLS_SWITCHES = {"sslMode", "useSSL", "useSsl", "requireSSL", "verifyServerCertificate",
                       "trustServerCertificate"}  # fmt: skip
_POSTGRESQL_FIX = "Write sslmode and sslrootcert, with PEM files in place of a key store."
_MYSQL_FIX = "Write sslMode and serverSslCert, with a PEM file in place of a key store."
_TARGETS = {"primary": "primary", "master": "primary", "any": "any"}


class OptionError(ValueError):
    """An option cannot be kept; ``fix`` is the advice."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix


def postgresql_options(given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return libpq's options, and the names of options that have no meaning there.

    Raises:
        OptionError: an option about TLS has no counterpart.
    """
    options = {_POSTGRESQL[name]: value for name, value in given.items() if name in _POSTGRESQL}
    if is_on(given, "ssl"):
        options.setdefault("sslmode", "verify-full")  # pgJDBC's meaning of ssl=true
    target = given.get("targetServerType")
    if target in _TARGETS:
        options["target_session_attrs"] = _TARGETS[target]
    return options, _ignored(given, {*_POSTGRESQL, "ssl", "targetServerType"}, _POSTGRESQL_FIX)


def mysql_options(given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options of a ``mysql://`` URL, and the names of options without a meaning there.

    Raises:
        OptionError: an option about TLS has no counterpart.
    """
    options = {_MYSQL[name]: value for name, value in given.items() if name in _MYSQL}
    mode = _mysql_tls(given)
    if mode:
        options["ssl-mode"] = mode
    timeout_ms = given.get("connectTimeout", "")
    if timeout_ms.isdecimal() and int(timeout_ms):
        options["connect-timeout"] = str(max(1, int(timeout_ms) // 1000))
    return options, _ignored(given, {*_MYSQL, *_MYSQL_TLS_SWITCHES, "connectTimeout"}, _MYSQL_FIX)


def is_on(given: Mapping[str, str], *names: str) -> bool:
    """Return whether at least one of some switches is given and true."""
    return any(given.get(name, "").lower() in {"true", "1", "yes"} for name in names)


def _mysql_tls(given: Mapping[str, str]) -> str:
    """Return ssl-mode, an empty text if the URL does not give it."""
    if "sslMode" in given:
        return given["sslMode"].lower()
    switches = {name.lower(): value.lower() for name, value in given.items()}
    if switches.get("usessl") == "false":
        return "disabled"
    if is_on(switches, "usessl", "requiressl", "verifyservercertificate"):
        if is_on(switches, "trustservercertificate"):
            return "required"
        if is_on(switches, "verifyservercertificate"):
            return "verify_ca"
        return "required" if is_on(switches, "requiressl") else ""
    return ""


def _ignored(given: Mapping[str, str], known: set[str], fix: str) -> tuple[str, ...]:
    ignored = sorted(set(given) - known)
    lost = [name for name in ignored if _ABOUT_TLS.search(name)]
    if lost:
        near = get_close_matches(lost[0], sorted(known), n=1, cutoff=0.8)
        raise OptionError(
            f"has the option {lost[0]}, which has no counterpart outside of Java",
            f"Did you mean {near[0]}?" if near else fix,
        )
    return tuple(ignored)
