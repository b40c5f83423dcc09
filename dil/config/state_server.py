"""The database server that keeps the state. Source: spec README 24, 25, behaviour.md B2.2."""

from __future__ import annotations

from dataclasses import replace

from dil.config.findings import Findings
from dil.model.database_address import DatabaseAddress, Server
from dil.model.properties import Properties

SERVER_KINDS = frozenset(server.value for server in Server)

_URL = "state.store.db.url"
_USER = "state.store.db.user"
_PASSWORD = "state.store.db.password"  # noqa: S105 - the name of a property
_EXAMPLES = {
    Server.POSTGRESQL: "postgresql://db.example.com:5432/dil",
    Server.MYSQL: "mysql://db.example.com:3306/dil",
}


def state_server(values: Properties, kind: str, findings: Findings) -> DatabaseAddress | None:
    """Return the database that keeps the state, None where a problem was found.

    No finding shows the URL: it may hold a password.
    """
    from dil.text.database_url import DatabaseUrlError, read_database_url  # servers are rare

    server = Server(kind)
    example = f"Write {_EXAMPLES[server]}, with {_USER} and {_PASSWORD}."
    _require_secrets(findings)
    if not findings.is_sound(_URL):
        return None
    url = values.secret(_URL)
    if not url:
        asked = values.origin("dataset.state.store.type") or values.origin("state.store.type")
        what = f"is needed for state.store.type={kind}, and not set"
        findings.problem(_URL, what, example, asked)
        return None
    try:
        found = read_database_url(url.reveal())
    except DatabaseUrlError as error:
        findings.problem(_URL, error.what, error.fix)
        return None
    if found.address.server is not server:
        findings.problem(
            _URL,
            f"names a {found.address.server} server, and state.store.type is {kind}",
            f"Set state.store.type={found.address.server}, or correct the URL.",
        )
        return None
    if found.ignored:
        findings.notice(
            _URL,
            f"has options of the Java driver that mean nothing here: {', '.join(found.ignored)}",
            "They are ignored; leave them out.",
        )
    return _with_login(found.address, values)


def note_unused_server(values: Properties, kind: str, findings: Findings) -> None:
    """Say that a server is named which nobody will speak to."""
    if _URL in values.explicit and kind != "noop":
        findings.notice(
            _URL,
            f"has no effect, because state.store.type is {kind}",
            "Set state.store.type=postgresql or mysql to keep the state on that server.",
        )


def _require_secrets(findings: Findings) -> None:
    """Make problems of this server's secrets that could not be read.

    For a command that does without the source's secrets they are notices up to here; it asks this
    server all the same, and must not do so with an empty password.
    """
    unread = [each for each in findings.notices if each.key in {_URL, _USER, _PASSWORD}]
    for each in unread:
        findings.notices.remove(each)
        what = f"{each.what}, and so must every command that looks at the state"
        findings.problem(each.key, what, each.fix, each.origin)


def _with_login(address: DatabaseAddress, values: Properties) -> DatabaseAddress:
    user = values.secret(_USER)
    password = values.secret(_PASSWORD)
    return replace(
        address,
        user=user.reveal() if user else address.user,
        password=password or address.password,
    )
