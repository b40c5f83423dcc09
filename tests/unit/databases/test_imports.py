"""What comes along with the room: nothing that a plan or a state store on SQLite does not need."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pyarrow", "pymysql", "psycopg", "duckdb", "adbc_driver_manager", "pyspark")


def test_a_driver_is_imported_when_one_connects() -> None:
    code = (
        "import sys\n"
        "from dil.databases import duckdb, faults, mysql, postgresql, sqlite, statements\n"
        "import dil.state.databases.sqlite_database, connectors.jdbc.connector\n"
        f"print(*(set(sys.modules) & set({HEAVY})))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert found.split() == []
