"""Which host keys make a server the intended one: names, ports, patterns, and revoked keys."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest

from connectors.sftp.address import SftpHost
from connectors.sftp.host_keys import HostKeyRules, KnownHost
from dil.errors import AuthenticationError, ConfigError

HOST = SftpHost("sftp.test", 22)
KEY, OTHER = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()


def known(folder: Path, *lines: str, host: SftpHost = HOST) -> KnownHost:
    path = folder / "known_hosts"
    path.write_text("".join(f"{line}\n" for line in lines))
    return KnownHost(HostKeyRules(checks=True, known_hosts=str(path), fingerprint=""), host)


def hashed(name: str) -> str:
    return paramiko.HostKeys.hash_host(name, f"|1|{'A' * 27}=|")


def line(names: str, key: paramiko.PKey = KEY, mark: str = "") -> str:
    return f"{mark} {names} {key.get_name()} {key.get_base64()}".strip()


@pytest.mark.parametrize(
    "names",
    [
        "sftp.test",
        "other.test,SFTP.test",
        "*.test",
        "sftp.tes?",
        "!a.test,*.test",
        hashed("sftp.test"),
    ],
)
def test_a_server_is_known_by_its_name_and_patterns(tmp_path: Path, names: str) -> None:
    known(tmp_path, "# comment", "damaged", line("sftp.test", OTHER), line(names)).check(KEY)


@pytest.mark.parametrize(
    "names",
    [
        "other.test",
        "[sftp.test]:2222",
        "*.test,!sftp.test",
        "sftp-test",
        "xsftp.test",
        hashed("other.test"),
    ],
)
def test_a_key_of_another_name_makes_no_server_known(tmp_path: Path, names: str) -> None:
    with pytest.raises(AuthenticationError):
        known(tmp_path, line(names)).check(KEY)


def test_another_port_is_another_server(tmp_path: Path) -> None:
    host = SftpHost("sftp.test", 2222)
    known(tmp_path, line("[sftp.test]:2222"), host=host).check(KEY)
    with pytest.raises(AuthenticationError):
        known(tmp_path, line("sftp.test"), host=host).check(KEY)


def test_another_key_than_the_known_ones_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError):
        known(tmp_path, line("sftp.test", OTHER)).check(KEY)


def test_a_revoked_key_is_refused_though_a_line_knows_it(tmp_path: Path) -> None:
    lines = (line("sftp.test"), line("*", mark="@revoked"))
    with pytest.raises(AuthenticationError):
        known(tmp_path, *lines).check(KEY)


def test_the_key_of_an_authority_is_no_key_of_a_server(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError):
        known(tmp_path, line("*.test", mark="@cert-authority")).check(KEY)


def test_a_fingerprint_stands_for_one_whole_key() -> None:
    def check(fingerprint: str) -> None:
        rules = HostKeyRules(checks=True, known_hosts="", fingerprint=fingerprint)
        KnownHost(rules, HOST).check(KEY)

    check(KEY.fingerprint)
    check(f"{KEY.fingerprint}=")
    last = "A" if KEY.fingerprint[-1] != "A" else "E"
    with pytest.raises(AuthenticationError):
        check(KEY.fingerprint[:-1] + last)


def test_a_named_file_has_to_be_there_and_the_default_one_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    KnownHost(HostKeyRules(checks=True, known_hosts="", fingerprint=""), HOST)
    with pytest.raises(ConfigError):
        KnownHost(HostKeyRules(checks=True, known_hosts="none", fingerprint=""), HOST)


def test_a_server_is_asked_first_for_the_kind_of_key_that_is_known(tmp_path: Path) -> None:
    offered = ["ssh-ed25519", "rsa-sha2-512", KEY.get_name()]
    assert known(tmp_path, line("sftp.test")).order(offered) == [
        KEY.get_name(),
        "ssh-ed25519",
        "rsa-sha2-512",
    ]
