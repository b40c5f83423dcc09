"""Jobs over databases, run in this process, and what they published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.jdbc.session import JdbcSession
from connectors.jdbc.settings import JdbcSettings
from dil import config
from dil.job import RunOptions, run_job
from dil.model.job import Job
from dil.model.json import JsonValue
from dil.model.report import RunReport
from dil.model.secret import Secret
from dil.spi.connector import RequestValues
from tests.jobs import visible_files
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD
from tests.servers.postgresql import PASSWORD as POSTGRESQL_PASSWORD
from tests.stories import executor

NOW = 1_735_689_600_000  # 2025-01-01T00:00:00Z


class DatabaseJob:
    """One job in a folder of its own; dots in names of properties are double underscores."""

    def __init__(self, folder: Path, uri: str, statement: str, **properties: str) -> None:
        self.folder = folder
        self.properties = {
            "job.name": "rows",
            "source.class": "JdbcSource",
            "ms.source.uri": uri,
            "ms.jdbc.statement": statement,
            "ms.extractor.class": "json",
            "extract.namespace": "lake",
            "extract.table.name": "rows",
            "extract.table.type": "SNAPSHOT_ONLY",
            "ms.timezone": "UTC",
            "ms.watermark": json.dumps(
                [{"name": "s", "type": "datetime", "range": {"from": "2024-12-31", "to": "P0D"}}]
            ),
            "writer.output.format": "PARQUET",
            "writer.file.path.type": "namespace_table",
            "data.publisher.final.dir": str(folder / "lake"),
            "state.store.dir": str(folder / "state"),
            "task.maxretries": "0",
            **_dotted(properties),
        }
        self._runs = 0

    def job(self, **changes: str) -> Job:
        """Write the job file anew and load it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "rows.conf"
        given = {**self.properties, **_dotted(changes)}
        path.write_text("\n".join(f"{name}={value}" for name, value in given.items()) + "\n")
        return config.load(path, environ={}).job

    def run(self, **changes: str) -> RunReport:
        """Run the job once; nothing sleeps."""
        self._runs += 1
        options = RunOptions(
            now_ms=NOW, clock=lambda: NOW, executor=executor(), run_id=f"run-{self._runs}"
        )
        return run_job(self.job(**changes), options)

    def table(self) -> pa.Table:
        """Return what was published."""
        return pa.concat_tables(
            [pq.read_table(path) for path in visible_files(self.folder)],
            promote_options="permissive",
        )

    def rows(self) -> list[dict[str, Any]]:
        return self.table().to_pylist()


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


def _dotted(properties: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in properties.items()}
