"""The address of a database server, with its login."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from dil.model.secret import Secret


class Server(StrEnum):
    """A kind of database server; MariaDB counts as MySQL. The value names the server in URLs."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"

    @property
    def default_port(self) -> int:
        """Return the server's default port."""
        return 5432 if self is Server.POSTGRESQL else 3306


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """One database on a server, as its URL names it.

    ``hosts`` holds pairs (name, port); it is empty if an option names a socket. Only PostgreSQL has
    several hosts, and uses the first host that answers. ``options`` are pairs that the driver
    understands: the options of libpq for PostgreSQL, and the options under ``mysql-options`` in the
    documentation for MySQL. They may hold secrets and are not printed.
    """

    server: Server
    hosts: tuple[tuple[str, int], ...]
    database: str
    user: str = ""
    password: Secret | None = None
    schema: str = ""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        """Return the address without user, password and options."""
        hosts = ",".join(f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
                         for name, port in self.hosts)  # fmt: skip
        schema = f"?schema={self.schema}" if self.schema else ""
        return f"{self.server}://{hosts}/{self.database}{schema}"

    def with_login(self, user: Secret | None, password: Secret | None) -> DatabaseAddress:
        """Return the address with another login; None keeps what the URL has."""
        return replace(
            self,
            user=user.reveal() if user else self.user,
            password=password or self.password,
        )


class DatabaseUrlError(ValueError):
    """A text is no database URL; ``fix`` is the advice. Neither message shows the text."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix
