"""A real PostgreSQL server on a free loopback port, stopped by pid."""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import signal
from base64 import b64encode
from pathlib import Path
from typing import Self

import psycopg

from tests.servers.certificates import authority, server_of
from tests.servers.programs import free_port, needed_program, own_folder, run, start
from tests.servers.waiting import wait_until

PLACES = ("/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql*/bin")
PASSWORD = "p@ss:wörd/%"


class PostgresqlServer:
    """One cluster in a folder of its own; ``durable`` makes its disk writes safe, but slower."""

    def __init__(self, *, durable: bool = False) -> None:
        self.port = free_port()
        self._durable = durable
        self._kept: psycopg.Connection | None = None
        self._programs = Path(needed_program("postgres", *PLACES)).parent

    def __enter__(self) -> Self:
        self.folder, self._user = own_folder("postgres")
        data, secret = self.folder / "data", self.folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        run([str(self._programs / "initdb"), "--pgdata", str(data), "--username", "admin",
             "--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8",
             "--locale", "C.UTF-8", "--no-sync"], self._user)  # fmt: skip
        self.start()
        self.execute(f"ALTER ROLE admin PASSWORD '{_hashed_once(PASSWORD)}'")
        return self

    def __exit__(self, *_: object) -> None:
        self._close_kept()
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=30)
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start the server, also after a kill, and wait until it answers."""
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
                    "-c", "max_connections=60", "-c", "restart_after_crash=off"]  # fmt: skip
        if not self._durable:
            settings += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self._process = start(
            [str(self._programs / "postgres"), "-D", str(self.folder / "data"),
             "-p", str(self.port), *settings], self._user, self.folder / "log")  # fmt: skip
        wait_until(self._answers)

    def turn_on_tls(self) -> None:
        """Let clients encrypt; clients then encrypt by default."""
        identity = server_of(authority("test"))
        data = self.folder / "data"
        for name, text in (("server.crt", identity.pem), ("server.key", identity.key_pem())):
            (data / name).write_bytes(text)
            (data / name).chmod(0o600)
            if self._user is not None:
                shutil.chown(data / name, self._user, self._user)
        self.execute("ALTER SYSTEM SET ssl = on")
        self.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self.execute("SHOW ssl") == [("on",)])

    def kill(self) -> None:
        """Kill all processes of the server; ``start`` recovers it."""
        self._close_kept()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)
        (self.folder / "data/postmaster.pid").unlink(missing_ok=True)

    def pause(self) -> None:
        """Let the server hang until ``go_on``."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple]:
        """Run a statement as the administrator."""
        with self._connect(database) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def hash_as_usual(self) -> None:
        """Hash the password in 4,096 rounds: Java's driver refuses fewer."""
        self.execute(f"ALTER ROLE admin PASSWORD '{PASSWORD}'")

    def add_database(self, name: str) -> str:
        """Make an empty database and return its URL, without user and password."""
        # Without FILE_COPY, which releases from 15 on know, each block goes through the log.
        way = " STRATEGY FILE_COPY" if self._keep().info.server_version >= 150_000 else ""
        self._keep().execute(f'CREATE DATABASE "{name}"{way}'.encode())
        return f"postgresql://127.0.0.1:{self.port}/{name}"

    def drop_database(self, name: str) -> None:
        self._keep().execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())

    def _connect(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(host="127.0.0.1", port=self.port, user="admin", password=PASSWORD,
                               dbname=database, autocommit=True)  # fmt: skip

    def _keep(self) -> psycopg.Connection:
        """Return the connection that makes databases; to connect takes as long as to make one."""
        if self._kept is None or self._kept.closed:
            self._kept = self._connect()
        return self._kept

    def _close_kept(self) -> None:
        if self._kept is not None:
            self._kept.close()

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text(errors="replace"))
        try:
            return bool(self.execute("SELECT 1"))
        except psycopg.OperationalError:
            return False


def _hashed_once(password: str) -> str:
    """Return a password as a server keeps it, of one round: 4,096 cost each client 2 ms.

    Source: RFC 5802 section 3; PostgreSQL 15 documentation, "pg_authid".
    """
    salt = b"salt of each run"
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encoded = (b64encode(each).decode() for each in (salt, client, server))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*encoded)
