"""What the address of a MySQL server means to its driver."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dil.databases.mysql import arguments as mysql_arguments
from dil.model.database_address import DatabaseAddress, Server
from dil.model.secret import Secret


def arguments(*options: tuple[str, str], **facts: object) -> dict[str, object]:
    address = DatabaseAddress(Server.MYSQL, (("db", 3307),), "lake", **facts, options=options)
    return mysql_arguments(address, connect_s=10)


def test_host_login_and_limits_are_those_of_the_address() -> None:
    found = arguments(("connect-timeout", "3"), user="loader", password=Secret("ö"))
    assert (found["host"], found["port"], found["database"]) == ("db", 3307, "lake")
    assert (found["user"], found["password"]) == ("loader", "ö".encode())
    assert (found["connect_timeout"], found["charset"]) == (3, "utf8mb4")
    assert arguments()["connect_timeout"] == 10


def test_a_socket_takes_the_place_of_a_host() -> None:
    address = DatabaseAddress(Server.MYSQL, (), "lake", options=(("unix-socket", "/run/my.sock"),))
    found = mysql_arguments(address, connect_s=10)
    assert found["unix_socket"] == "/run/my.sock"
    assert not {"host", "port", "user", "password"} & found.keys()


def test_without_an_ssl_mode_the_driver_encrypts_where_the_server_can() -> None:
    assert not {"ssl", "ssl_disabled"} & arguments().keys()
    assert arguments(("ssl-mode", "disabled"))["ssl_disabled"] is True


@pytest.mark.parametrize(
    ("mode", "verifies", "looks_at_host"),
    [
        ("required", ssl.CERT_NONE, False),
        ("verify_ca", ssl.CERT_REQUIRED, False),
        ("verify_identity", ssl.CERT_REQUIRED, True),
    ],
)
def test_an_ssl_mode_says_what_of_a_certificate_is_looked_at(mode, verifies, looks_at_host) -> None:
    context = arguments(("ssl-mode", mode))["ssl"]
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (verifies, looks_at_host)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        arguments(("ssl-ca", str(tmp_path / "ca.pem")))
