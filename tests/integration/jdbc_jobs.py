"""Jobs over databases, run in this process, and what they published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.jdbc.session import JdbcSession
from connectors.jdbc.settings import JdbcSettings
from dil.model.json import JsonValue
from dil.model.secret import Secret
from dil.spi.connector import RequestValues
from tests.integration.local_jobs import LocalJob
from tests.jobs import visible_files
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD
from tests.servers.postgresql import PASSWORD as POSTGRESQL_PASSWORD


class DatabaseJob(LocalJob):
    """A job that runs one statement on a database."""

    def __init__(self, folder: Path, uri: str, statement: str, **properties: str) -> None:
        asked = {
            "source__class": "JdbcSource", "ms__source__uri": uri, "ms__jdbc__statement": statement
        }  # fmt: skip
        super().__init__(folder, **{**asked, **properties})

    def table(self) -> pa.Table:
        """Return what was published."""
        return pa.concat_tables(
            [pq.read_table(path) for path in visible_files(self.folder)],
            promote_options="permissive",
        )


def read(
    uri: str,
    statement: str,
    variables: Mapping[str, JsonValue] | None = None,
    **settings: Any,
) -> pa.Table:
    """Return the rows of a statement as the session hands them on."""
    password = next(
        (each for mark, each in _PASSWORDS.items() if uri.startswith(f"jdbc:{mark}")), None
    )
    if password:
        settings = {"user": "admin", "password": Secret(password), **settings}
    with JdbcSession(JdbcSettings(uri, statement, **settings)) as session:
        batches = list(session.read(RequestValues(variables or {}, {})))
    return pa.Table.from_batches(batches) if batches else pa.table({})


_PASSWORDS = {
    "postgresql": POSTGRESQL_PASSWORD, "mysql": MARIADB_PASSWORD, "mariadb": MARIADB_PASSWORD
}  # fmt: skip


def jdbc(url: str) -> str:
    """Return the URL of a test server's database as a Java job file writes it."""
    return f"jdbc:{url}"
