"""The modes of TLS against a real MariaDB server that has a certificate."""

from __future__ import annotations

import pymysql
import pytest

from dil.databases import mysql
from dil.model.database_address import DatabaseAddress
from dil.model.database_address import Server as Kind
from dil.model.secret import Secret
from tests.servers.certificates import authority, server_of
from tests.servers.mariadb import PASSWORD, MariadbServer
from tests.servers.mysql import mysql_class


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """Return the files of an authority that signed the server's certificate, and of another."""
    folder = tmp_path_factory.mktemp("authorities")
    found = {name: authority(name) for name in ("ours", "other")}
    for name, identity in found.items():
        (folder / name).write_bytes(identity.pem)
    return found["ours"], str(folder / "ours"), str(folder / "other")


@pytest.fixture(scope="module")
def server(authorities):
    with mysql_class()(identity=server_of(authorities[0])) as running:
        yield running


def cipher(server: MariadbServer, host: str = "127.0.0.1", **options: str) -> str:
    """Return the cipher of a new connection, empty text if it is not encrypted."""
    given = tuple((name.replace("_", "-"), value) for name, value in options.items())
    address = DatabaseAddress(
        Kind.MYSQL, ((host, server.port),), "mysql", "admin", Secret(PASSWORD), options=given
    )
    with mysql.connect(address, connect_s=10) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        return cursor.fetchone()[1]


def test_a_connection_is_encrypted_unless_the_address_asks_for_none(server, authorities) -> None:
    _, trusted, _ = authorities
    assert cipher(server)
    assert cipher(server, ssl_mode="required")
    assert cipher(server, ssl_ca=trusted)
    assert cipher(server, ssl_mode="verify_identity", ssl_ca=trusted)
    assert not cipher(server, ssl_mode="disabled")


def test_a_server_that_does_not_prove_who_it_is_is_refused(server, authorities) -> None:
    _, trusted, other = authorities
    with pytest.raises(pymysql.OperationalError, match="certificate verify failed"):
        cipher(server, ssl_ca=other)
    # The certificate names the server's number, not its name.
    assert cipher(server, "localhost", ssl_ca=trusted)
    with pytest.raises(pymysql.OperationalError, match="Hostname mismatch"):
        cipher(server, "localhost", ssl_mode="verify_identity", ssl_ca=trusted)


def test_a_server_without_tls_is_read_unless_the_address_demands_it(mysql_server) -> None:
    assert not cipher(mysql_server)
    with pytest.raises(pymysql.OperationalError, match="SSL"):
        cipher(mysql_server, ssl_mode="required")
