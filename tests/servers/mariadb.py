"""A real MariaDB server on a free loopback port, stopped by pid."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Self

import pymysql

from tests.servers.programs import (
    find_program,
    free_port,
    needed_program,
    own_folder,
    run,
    start,
)
from tests.servers.waiting import wait_until

if TYPE_CHECKING:
    from tests.servers.certificates import Identity

PLACES = ("/usr/sbin", "/opt/homebrew/opt/mariadb/bin")
PASSWORD = "p@ss:wörd/%"


class MariadbServer:
    """One server in a folder of its own, which speaks TLS if it has an identity.

    ``durable`` makes its disk writes safe, but slower.
    """

    # What has another name on MySQL: the variable that refuses tables without a primary key, a
    # collation that compares bytes, and the type of a UUID.
    demands_keys = "innodb_force_primary_key"
    collation = "utf8mb4_nopad_bin"
    uuid_type = "uuid"

    def __init__(self, *, durable: bool = False, identity: Identity | None = None) -> None:
        self.port = free_port()
        self._durable = durable
        self._identity = identity
        self._find_program()

    def _find_program(self) -> None:
        self._program = [needed_program("mariadbd", *PLACES), "--no-defaults"]

    def _install(self) -> None:
        self.folder, self._user = own_folder("mysql")
        installer = find_program("mariadb-install-db", ("/usr/bin", *PLACES))
        run([str(installer), "--no-defaults", f"--datadir={self.folder / 'data'}",
             "--auth-root-authentication-method=normal", "--skip-test-db"], self._user)  # fmt: skip

    def __enter__(self) -> Self:
        self._install()
        self.start()
        self._execute_as(
            "root", "", f"CREATE USER admin@'%' IDENTIFIED BY '{PASSWORD}'", database="mysql"
        )
        self._execute_as("root", "", "GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION", "mysql")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM if self._durable else signal.SIGKILL)
        self._process.wait(timeout=30)
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start the server, also after a kill, and wait until it answers."""
        settings = ["--bind-address=127.0.0.1", f"--port={self.port}", "--max-connections=60",
                    f"--socket={self.folder / 'socket'}", "--skip-name-resolve",
                    f"--pid-file={self.folder / 'pid'}", "--innodb-buffer-pool-size=32M",
                    # A starting server deletes the files of others in a shared folder.
                    f"--tmpdir={self.folder}",
                    # Many servers have this setting, which must not mislead the store.
                    "--character-set-server=latin1", "--collation-server=latin1_swedish_ci",
                    "--sql-mode="]  # fmt: skip
        if not self._durable:
            settings += ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"]
        if self._identity is not None:
            pem = self.folder / "server.pem"
            pem.write_bytes(self._identity.pem + self._identity.key_pem())
            pem.chmod(0o644)  # The server is another user.
            settings += [f"--ssl-cert={pem}", f"--ssl-key={pem}"]
        self._process = start(
            [*self._program, f"--datadir={self.folder / 'data'}", *settings],
            self._user,
            self.folder / "log",
        )
        wait_until(self._answers)

    def kill(self) -> None:
        """Kill the server; ``start`` recovers it."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)

    def pause(self) -> None:
        """Let the server hang until ``go_on``."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def execute(self, statement: str, database: str = "mysql") -> list[tuple]:
        """Run a statement as the administrator."""
        return self._execute_as("admin", PASSWORD, statement, database)

    def _execute_as(self, user: str, password: str, statement: str, database: str) -> list[tuple]:
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=password.encode(),
            database=database,
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=True,  # else PyMySQL reads all certificates of this machine each time
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def add_database(self, name: str) -> str:
        """Make an empty database and return its URL, without user and password."""
        self.execute(f"CREATE DATABASE `{name}`")
        return f"mysql://127.0.0.1:{self.port}/{name}"

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE `{name}`")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text(errors="replace"))
        try:
            return bool(self._execute_as("root", "", "SELECT 1", "mysql"))
        except pymysql.MySQLError:
            return False
