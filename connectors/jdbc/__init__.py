"""Databases as sources: PostgreSQL, MySQL, MariaDB, SQLite, DuckDB, SQL Server, Oracle."""

from connectors.jdbc.connector import JdbcConnector

__all__ = ["JdbcConnector"]
