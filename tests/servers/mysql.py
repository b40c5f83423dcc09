"""A real MySQL server, of the programs that scripts/ensure-third-party fetches.

The tests of MySQL start MariaDB, which every distribution has; ``DIL_MYSQL=mysql`` makes them start
this server.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.servers.mariadb import MariadbServer
from tests.servers.programs import run

PROGRAMS = Path(__file__).parents[2] / ".cache/servers/mysql"


class MysqlServer(MariadbServer):
    """One MySQL server, which is used like one of MariaDB."""

    demands_keys = "sql_require_primary_key"
    collation = "utf8mb4_0900_bin"
    uuid_type = "char(36)"

    def _find_program(self) -> None:
        program = PROGRAMS / "bin/mysqld"
        if not program.exists():
            # Also where servers are required: the suite of Debian that has it promises nothing.
            pytest.skip("MySQL is not installed. Run scripts/ensure-third-party, on Debian.")
        libraries = PROGRAMS / "lib"
        (loader,) = libraries.glob("ld-linux*")
        self._program = [
            str(loader), "--library-path", str(libraries), str(program), "--no-defaults",
            f"--lc-messages-dir={PROGRAMS / 'share'}",
            f"--character-sets-dir={PROGRAMS / 'share/charsets'}",
            "--secure-file-priv=NULL", "--mysqlx=OFF", "--skip-log-bin",
            "--performance-schema=OFF",
        ]  # fmt: skip
        if self._identity is None:
            self._program.append("--tls-version=")  # else it makes a certificate of its own
        if os.geteuid() == 0:
            self._program.append("--user=root")  # other users may be unable to read the programs

    def _install(self) -> None:
        self.folder, self._user = Path(tempfile.mkdtemp(prefix="dil-server-")), None
        # A server that resolves no names lets root@localhost in by its socket alone.
        local_root = self.folder / "root.sql"
        local_root.write_text("RENAME USER root@localhost TO root@'127.0.0.1';\n")
        run([*self._program, f"--datadir={self.folder / 'data'}", "--initialize-insecure",
             f"--init-file={local_root}", "--innodb-flush-log-at-trx-commit=0",
             "--innodb-doublewrite=0"], self._user)  # fmt: skip


def mysql_class() -> type[MariadbServer]:
    """Return the kind of server that tests of MySQL start."""
    return MysqlServer if os.environ.get("DIL_MYSQL") == "mysql" else MariadbServer
