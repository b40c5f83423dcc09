"""Connections to each kind of database; a job imports only the module and driver that it needs."""

from __future__ import annotations

from connectors.jdbc.engine import Login, SourceConnection
from connectors.jdbc.syntax import Kind


def connect(login: Login) -> SourceConnection:
    """Return a connection to a database; its driver is imported here.

    Raises:
        TransientSourceError: the server does not answer.
        AuthenticationError: the server refused the user.
        SourceError: anything else, such as a file that does not exist.
    """
    kind = login.address.kind
    if kind.is_mysql:
        from connectors.jdbc.engines.mysql import MysqlConnection

        return MysqlConnection(login)
    if kind is Kind.POSTGRESQL:
        from connectors.jdbc.engines.postgresql import PostgresqlConnection

        return PostgresqlConnection(login)
    if kind is Kind.DUCKDB:
        from connectors.jdbc.engines.duckdb import DuckdbConnection

        return DuckdbConnection(login)
    if kind is Kind.SQLITE:
        from connectors.jdbc.engines.sqlite import SqliteConnection

        return SqliteConnection(login)
    from connectors.jdbc.engines.alchemy import AlchemyConnection

    return AlchemyConnection(login)
