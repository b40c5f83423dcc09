"""One connection to a server: what it proposes, how long it waits, and that none is left open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest

from connectors.sftp.address import SftpHost
from connectors.sftp.connection import SftpConnection, SftpSettings
from connectors.sftp.host_keys import HostKeyRules
from dil.errors import AuthenticationError
from dil.model.secret import Secret
from tests.jobs import bare_job
from tests.servers.sftp import PasswordServer

UNCHECKED = HostKeyRules(checks=False, known_hosts="", fingerprint="")


@pytest.fixture
def server() -> Iterator[PasswordServer]:
    with PasswordServer("lake", "p w", b"abc") as running:
        yield running


@contextmanager
def connection(
    server: PasswordServer, host_keys: HostKeyRules = UNCHECKED
) -> Iterator[SftpConnection]:
    host = SftpHost("127.0.0.1", server.port, "lake")
    settings = SftpSettings(
        bare_job(), host, Secret("p w"), None, None, host_keys, timeout_s=17.0, proxy=""
    )
    found = SftpConnection(settings, host)
    try:
        yield found
    finally:
        found.drop()


def transport_of(opened: SftpConnection) -> paramiko.Transport:
    channel = opened.client().get_channel()
    assert channel is not None
    assert channel.gettimeout() == 17.0, "each answer has this much time"
    return channel.get_transport()


def test_the_kind_of_key_that_is_known_is_proposed_first(
    server: PasswordServer, tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    key = server.key
    known.write_text(f"[127.0.0.1]:{server.port} {key.get_name()} {key.get_base64()}\n")
    with connection(server, HostKeyRules(True, str(known), "")) as opened:
        assert transport_of(opened).get_security_options().key_types[0] == key.get_name()


def test_a_connection_that_broke_is_opened_anew(server: PasswordServer) -> None:
    with connection(server) as opened:
        broken = transport_of(opened)
        server.transports[0].close()
        broken.join(20)
        assert opened.client().listdir("/in") == ["a.json"]


def test_a_server_that_is_refused_is_left_without_a_connection(server: PasswordServer) -> None:
    other = HostKeyRules(checks=True, known_hosts="", fingerprint="SHA256:other")
    with connection(server, other) as opened:
        with pytest.raises(AuthenticationError):
            opened.client()
        server.transports[0].join(20)
        assert not server.transports[0].is_active()
