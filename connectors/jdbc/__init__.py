"""Databases as sources: PostgreSQL, MySQL, MariaDB, SQLite, DuckDB, SQL Server, Oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.lazy import connector_of

if TYPE_CHECKING:
    from connectors.jdbc.connector import JdbcConnector

__all__ = ["JdbcConnector"]
__getattr__ = connector_of(__name__, "JdbcConnector")
