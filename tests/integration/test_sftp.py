"""SFTP by a real OpenSSH server (docs/sftp.md, rule S10)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import paramiko
import pytest

from connectors.files.remote import RemoteFileSession
from connectors.sftp.connection import SftpSettings
from connectors.sftp.session import SftpFiles
from dil.errors import AuthenticationError, ConfigError, SourceContractError
from dil.operator.source_preview import preview_source
from dil.spi.connector import RequestValues
from tests.integration.local_jobs import NOW, FileJob, error_of
from tests.jobs import ROOT
from tests.servers.connect_proxy import ConnectProxy
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.sftp import PASSPHRASE, PasswordServer, SftpServer

ROWS = [{"id": number, "text": f"row {number} " * 40} for number in range(40_000)]
LARGE = json.dumps(ROWS).encode()


@pytest.fixture(scope="module")
def sshd() -> Iterator[SftpServer]:
    with SftpServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch) -> None:
    monkeypatch.setitem(RemoteFileSession.__init__.__kwdefaults__, "sleep", lambda seconds: None)


@pytest.fixture
def files(sshd) -> Iterator[Path]:
    """An empty folder on the server."""
    yield sshd.files
    for path in sshd.files.iterdir():
        path.chmod(0o755) if not path.is_symlink() else None
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def listing(folder: Path, server: SftpServer, port: int | None = None, **more: str) -> FileJob:
    given = {"ms__source__uri": str(server.files), **server.properties(port), **more}
    return FileJob(folder, **given)


def reading(
    folder: Path, server: SftpServer, name: str, port: int | None = None, **more
) -> FileJob:
    uri = {"ms__source__uri": f"{server.files}/{name}", "ms__extractor__target__file__name": "x"}
    return listing(folder, server, port, **{**uri, **more})


def error_free(report) -> bool:
    assert report.failures == ()
    return True


def names(job: FileJob) -> list[str]:
    assert error_free(job.run())
    found = [next(iter(row.values())) for row in job.rows()]
    return [name.removeprefix(f"{job.properties['ms.source.uri']}/") for name in found]


def ids(job: FileJob) -> list[int]:
    return [row["id"] for row in job.rows()]


def test_a_folder_lists_its_files_sorted_with_full_paths_and_no_folders(sshd, files, tmp_path):
    for name in ("b c.csv", "a;b.csv", "ü.csv", ".hidden", "*.csv"):
        (files / name).write_text("x")
    (files / "folder").mkdir()
    (files / "link").symlink_to("b c.csv")
    (files / "to folder").symlink_to("folder")
    (files / "to nothing").symlink_to("nowhere")
    (files.parent / "elsewhere.csv").write_text("x")
    (files / "outward").symlink_to("../elsewhere.csv")
    wanted = ["*.csv", ".hidden", "a;b.csv", "b c.csv", "outward", "ü.csv"]
    assert names(listing(tmp_path / "1", sshd)) == wanted
    schema = '[{"columnName":"path","dataType":{"type":"string"}}]'
    job = listing(tmp_path / "2", sshd, ms__extractor__class="csv", ms__output__schema=schema)
    assert names(job) == wanted


def test_a_file_with_links_to_it_is_there_once_by_its_own_name_where_that_is_wanted(
    sshd, files, tmp_path
):
    (files / "2024.csv").write_text("x")
    (files / "latest.csv").symlink_to("2024.csv")
    (files / "newest.csv").symlink_to("latest.csv")
    (files.parent / "by link").unlink(missing_ok=True)
    (files.parent / "by link").symlink_to(files)
    assert names(listing(tmp_path / "1", sshd)) == ["2024.csv"]
    by_link = listing(tmp_path / "2", sshd, ms__source__uri=f"{files.parent}/by link")
    assert names(by_link) == ["2024.csv"]
    only_links = {"ms__source__files__pattern": ".*est.csv"}
    assert names(listing(tmp_path / "3", sshd, **only_links)) == ["latest.csv"]
    each = reading(
        tmp_path / "4", sshd, "", ms__source__files__once="path", ms__watermark="",
        ms__extractor__class="text", ms__source__uri=str(files),
    )  # fmt: skip
    report = each.run()
    assert (report.units.planned, report.rows) == (1, 1)


def test_wildcards_stand_in_the_last_part_of_a_path_and_the_pattern_for_the_whole(
    sshd, files, tmp_path
):
    for name in ("s_1.csv", "s_22.csv", "t_1.csv", ".s_1.csv"):
        (files / name).write_text("x")
    found = listing(tmp_path / "1", sshd, ms__source__uri=f"{files}/*.csv")
    assert error_free(found.run())
    assert [row["values"] for row in found.rows()] == [
        f"{files}/{name}" for name in ("s_1.csv", "s_22.csv", "t_1.csv")
    ]
    pattern = r".*/s_[0-9]+\\.csv"
    found = listing(tmp_path / "2", sshd, ms__source__uri=f"{files}/?_?.csv",
                    ms__source__files__pattern=pattern)  # fmt: skip
    assert error_free(found.run())
    assert [row["values"] for row in found.rows()] == [f"{files}/s_1.csv"]


def test_a_file_is_asked_for_by_its_name_though_it_has_wildcards(sshd, files, tmp_path):
    (files / "a*.json").write_text('[{"id":1}]')
    (files / "ab.json").write_text('[{"id":2}]')
    job = reading(tmp_path, sshd, "{{name}}", ms__parameters='[{"name":"name","value":"a*.json"}]')
    assert error_free(job.run())
    assert ids(job) == [1]


def test_an_address_says_server_and_path_with_escapes(sshd, files, tmp_path):
    (files / "a b%.json").write_text('[{"id":1}]')
    job = reading(tmp_path, sshd, "", ms__source__uri=f"{sshd.uri}/a%20b%25.json",
                  source__conn__host="elsewhere.invalid", source__conn__port="9")  # fmt: skip
    assert error_free(job.run())
    assert ids(job) == [1]


def test_an_empty_folder_is_no_row_and_a_missing_one_is_an_error(sshd, files, tmp_path):
    assert names(listing(tmp_path / "1", sshd)) == []
    job = listing(tmp_path / "2", sshd, ms__source__uri=f"{files}/none")
    assert error_of(job.run()).endswith("/files/none: no such file or folder")
    job = reading(tmp_path / "3", sshd, "*.json")
    assert error_of(job.run()).endswith("/files/*.json: no object")


def test_of_several_files_the_first_is_read_and_that_is_told(sshd, files, tmp_path, caplog):
    (files / "b.json").write_text('[{"id":2}]')
    (files / "a.json").write_text('[{"id":1}]')
    job = reading(tmp_path, sshd, "*.json")
    assert error_free(job.run())
    assert ids(job) == [1]
    assert f"there are several files; the first is read: {files}/a.json" in caplog.text


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 8 << 20, (8 << 20) + 1])
def test_every_byte_of_a_file_arrives_whatever_its_length(sshd, files, tmp_path, size):
    text = "x" * max(size - 11, 0)
    body = f'{{"text":"{text}"}}'.encode()[:size] if size > 11 else b" " * size
    (files / "a.json").write_bytes(body)
    job = reading(tmp_path, sshd, "a.json")
    assert error_free(job.run())
    assert job.rows() == ([{"text": text}] if size > 11 else [])


def test_a_transfer_that_is_cut_goes_on_where_it_was_cut(sshd, files, tmp_path, caplog):
    (files / "large.json").write_bytes(LARGE)
    with MeddlingProxy(sshd.port) as proxy:
        proxy.cut_after(3_000_000, times=2)
        job = reading(tmp_path, sshd, "large.json", proxy.port)
        assert error_free(job.run())
        assert proxy.cuts == 2
    assert "going on from byte" in caplog.text
    assert ids(job) == list(range(len(ROWS)))


def test_a_transfer_that_is_always_cut_is_a_failure_and_the_next_run_has_every_row(
    sshd, files, tmp_path
):
    (files / "large.json").write_bytes(LARGE)
    with MeddlingProxy(sshd.port) as proxy:
        proxy.cut_after(200_000, times=1_000)
        job = reading(tmp_path, sshd, "large.json", proxy.port)
        error = error_of(job.run())
        assert error.startswith("DIL-SRC-TRANSIENT: sftp://127.0.0.1:")
        assert "given up after 5 tries at byte" in error
        assert job.rows() == []
        proxy.cut_after(0, times=0)
        assert error_free(job.run())
    assert ids(job) == list(range(len(ROWS)))


def _grown(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b" ")


def _shortened(path: Path) -> None:
    os.truncate(path, 4_000_000)


def _rewritten(path: Path) -> None:
    path.write_bytes(LARGE.replace(b"row 7 ", b"row X "))
    os.utime(path, (1_600_000_000, 1_600_000_000))


def _overwritten(path: Path) -> None:
    """Write the file again so that it has all its bytes at any time."""
    with path.open("r+b") as stream:
        stream.write(LARGE.replace(b"row 7 ", b"row X "))
    os.utime(path, (1_600_000_000, 1_600_000_000))


def _replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(LARGE)
    os.utime(other, (1_600_000_000, 1_600_000_000))
    other.replace(path)


class _ActingProxy(MeddlingProxy):
    """Acts once so many bytes were answered."""

    def __init__(self, port: int, act) -> None:
        super().__init__(port)
        self._act_once = [act]
        self._seen = 0

    def answer(self, data: bytes) -> bytes:
        self._seen += len(data)
        if self._seen > 1_500_000 and self._act_once:
            self._act_once.pop()()
        return data


@pytest.mark.parametrize("change", [_grown, _shortened, _rewritten, _overwritten])
def test_a_file_that_changes_while_it_is_read_is_a_failure(sshd, files, tmp_path, change):
    path = files / "large.json"
    path.write_bytes(LARGE)
    with _ActingProxy(sshd.port, lambda: change(path)) as proxy:
        job = reading(tmp_path, sshd, "large.json", proxy.port)
        error = error_of(job.run())
        assert "DIL-SRC-CONTRACT" in error
        assert "the file changed while it was read: it " in error
        assert job.rows() == []
        path.write_bytes(LARGE)
        assert error_free(job.run())
    assert ids(job) == list(range(len(ROWS)))


@pytest.mark.parametrize(
    ("change", "what"),
    [(_replaced, "the file changed while it was read: it was written again"),
     (Path.unlink, "the file vanished while it was read")],
)  # fmt: skip
def test_a_file_that_is_another_one_after_a_cut_is_a_failure(sshd, files, tmp_path, change, what):
    path = files / "large.json"
    path.write_bytes(LARGE)
    with _ActingProxy(sshd.port, lambda: change(path)) as proxy:
        proxy.cut_after(3_000_000, times=1)
        job = reading(tmp_path, sshd, "large.json", proxy.port)
        assert what in error_of(job.run())
    assert job.rows() == []


def test_a_server_that_is_killed_while_it_sends_is_a_failure_and_the_next_run_has_every_row(
    sshd, files, tmp_path
):
    (files / "large.json").write_bytes(LARGE)
    with _ActingProxy(sshd.port, sshd.stop) as proxy:
        job = reading(tmp_path, sshd, "large.json", proxy.port)
        try:
            assert error_of(job.run()).startswith("DIL-SRC-TRANSIENT: sftp://127.0.0.1:")
        finally:
            sshd.start()
        assert job.rows() == []
        assert error_free(job.run())
    assert ids(job) == list(range(len(ROWS)))


def test_a_file_that_may_not_be_read_is_an_error(tmp_path):
    with SftpServer(denied="open") as server:
        (server.files / "a.json").write_text("[]")
        error = error_of(reading(tmp_path, server, "a.json").run())
    assert error.startswith("DIL-SRC-AUTH: sftp://127.0.0.1:")
    assert error.endswith("/files/a.json: permission denied")


def reading_by_password(folder: Path, server: PasswordServer, **more: str) -> FileJob:
    given = {
        "source__class": "sftp", "source__conn__username": "lake",
        "source__conn__password": "p w", "ms__sftp__host__key__check": "false",
        "ms__source__uri": f"sftp://127.0.0.1:{server.port}/in/a.json",
        "ms__extractor__class": "text", "ms__extractor__target__file__name": "x", **more,
    }  # fmt: skip
    return FileJob(folder, **given)


def test_a_server_that_gives_less_than_it_is_asked_for_gives_every_byte(tmp_path):
    with PasswordServer("lake", "p w", LARGE[:3_000_000] + b'"}]', most=10_000) as server:
        job = reading_by_password(tmp_path, server).job()
        with RemoteFileSession(job, SftpFiles(SftpSettings.of(job))) as session:
            body = session.fetch(RequestValues({}, {})).body
            assert body.read() == LARGE[:3_000_000] + b'"}]'
            body.close()


ONCE = {
    "ms__source__files__once": "path", "ms__extractor__target__file__name": "",
    "extract__table__type": "APPEND_ONLY", "ms__watermark": "",
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, ONCE])
def test_a_file_whose_size_the_server_does_not_tell_is_an_error(tmp_path, more):
    with PasswordServer("lake", "p w", b"abc", tells_size=False) as server:
        report = reading_by_password(tmp_path, server, **more).run()
    error = error_of(report)
    assert error.startswith("DIL-SRC-CONTRACT: sftp://127.0.0.1:")
    assert error.endswith("/in/a.json: the server does not say how long the file is")


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs Linux")
def test_a_file_that_has_more_bytes_than_the_server_tells_is_an_error(sshd, files, tmp_path):
    (files / "a.txt").symlink_to("/proc/version")  # its size is 0
    job = reading(tmp_path, sshd, "a.txt", ms__extractor__class="text")
    error = error_of(job.run())
    assert error.startswith("DIL-SRC-CONTRACT: sftp://127.0.0.1:")
    assert error.endswith("it has more than the 0 bytes that it should have")
    assert job.rows() == []


def test_an_answer_that_is_longer_than_was_asked_for_is_an_error(tmp_path):
    with PasswordServer("lake", "p w", b"abc", extra=1) as server:
        job = reading_by_password(tmp_path, server)
        error = error_of(job.run())
    assert error.endswith("/in/a.json: the server breaks the protocol: 4 bytes to a read of 3")
    assert job.rows() == []


def test_a_name_that_is_no_text_is_told(sshd, files, tmp_path):
    (Path(os.fsdecode(bytes(files) + b"/\xff.csv"))).write_text("x")
    error = error_of(listing(tmp_path, sshd).run())
    assert error.endswith("/files: a name there is not UTF-8")


@pytest.mark.parametrize("name", ["../secret.json", "/etc/a.json", "b/a.json"])
def test_a_listed_name_that_leads_out_of_its_folder_is_an_error(tmp_path, name):
    with PasswordServer("lake", "p w", b'[{"id": 1}]', name=name) as server:
        uri = f"sftp://127.0.0.1:{server.port}/in"
        job = reading_by_password(tmp_path, server, **ONCE, ms__source__uri=uri)
        with pytest.raises(SourceContractError, match="no name of a file in that folder") as caught:
            job.run()
    assert f"/in: the server lists '{name}', which" in str(caught.value)


def test_files_that_were_written_to_just_now_are_left_for_later(sshd, files, tmp_path, caplog):
    (files / "old.json").write_text('[{"id":1}]')
    (files / "young.json").write_text('[{"id":2}]')
    os.utime(files / "old.json", (1_600_000_000, 1_600_000_000))
    settle = {"ms__source__files__settle": "P1D"}
    assert names(listing(tmp_path / "1", sshd, **settle)) == ["old.json"]
    assert "files left for later by ms.source.files.settle: 1" in caplog.text
    error = error_of(reading(tmp_path / "2", sshd, "young.json", **settle).run())
    assert "was written to just now (ms.source.files.settle)" in error


def test_a_server_that_goes_away_is_a_failure_that_may_pass(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    job = FileJob(tmp_path, source__class="sftp", ms__source__uri=f"sftp://127.0.0.1:{port}/x",
                  source__conn__username="u", source__conn__password="p w")  # fmt: skip
    error = error_of(job.run())
    assert error == f"DIL-SRC-TRANSIENT: sftp://127.0.0.1:{port}: connection refused"


def test_a_server_that_never_answers_is_given_up(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        job = FileJob(
            tmp_path, source__class="sftp", ms__source__uri=f"sftp://127.0.0.1:{port}/x",
            source__conn__username="u", source__conn__password="p w",
            ms__sftp__conn__timeout__millis="200",
        )  # fmt: skip
        assert error_of(job.run()).startswith(f"DIL-SRC-TRANSIENT: sftp://127.0.0.1:{port}: ")


def test_a_host_key_that_is_not_known_is_refused_with_the_line_that_makes_it_known(
    sshd, files, tmp_path
):
    known = tmp_path / "known_hosts"
    known.write_text("# nobody\nother.host ssh-ed25519 AAAA\n@revoked * ssh-rsa AAAA\n")
    job = listing(tmp_path, sshd, source__conn__known__hosts=str(known))
    report = job.run()
    words = sshd.public(sshd.host_key).split()
    line = f"[127.0.0.1]:{sshd.port} {words[0]} {words[1]}"
    assert "the host key ssh-ed25519 SHA256:" in error_of(report)
    # The path of the folder may have the user's name, which is masked.
    assert f"/known_hosts: {line} (or" in report.failures[0].fix
    with known.open("a") as stream:
        stream.write(f"{line} a comment\n")
    assert error_free(job.run())


def test_a_server_whose_host_key_is_not_known_gets_no_password(tmp_path):
    known = tmp_path / "known_hosts"
    known.write_text("")
    checks = {
        "ms__sftp__host__key__check": "true", "source__conn__known__hosts": str(known),
    }  # fmt: skip
    with PasswordServer("lake", "p w", b"abc") as server:
        report = reading_by_password(tmp_path, server, **checks).run()
        assert [each.code for each in report.failures] == [AuthenticationError.code]
        assert server.logins == []


def test_a_host_key_that_is_another_one_is_refused(sshd, files, tmp_path):
    known = sshd.known_hosts(key=sshd.make_key(f"other-{tmp_path.name}"))
    copy = tmp_path / "known_hosts"
    shutil.move(known, copy)
    error = error_of(listing(tmp_path, sshd, source__conn__known__hosts=str(copy)).run())
    assert error.startswith(f"DIL-SRC-AUTH: sftp://127.0.0.1:{sshd.port}: the server's host key is")
    with copy.open("a") as stream:
        stream.write(f"@revoked * {sshd.public(sshd.host_key)}")
    error = error_of(listing(tmp_path, sshd, source__conn__known__hosts=str(copy)).run())
    assert "is revoked" in error


def test_a_hashed_name_a_fingerprint_and_the_switch_let_a_server_in(sshd, files, tmp_path):
    known = tmp_path / "known_hosts"
    shutil.copy(sshd.known_hosts(), known)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    assert error_free(listing(tmp_path / "1", sshd, source__conn__known__hosts=str(known)).run())
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{sshd.host_key}.pub"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()[1]
    none = {"source__conn__known__hosts": str(tmp_path / "none")}
    found = {**none, "ms__sftp__host__key__fingerprint": shown}
    assert error_free(listing(tmp_path / "2", sshd, **found).run())
    other = {**none, "ms__sftp__host__key__fingerprint": f"SHA256:{'A' * 43}"}
    assert "ms.sftp.host.key.fingerprint is SHA256:AAA" in error_of(
        listing(tmp_path / "3", sshd, **other).run()
    )
    assert error_free(
        listing(tmp_path / "4", sshd, **none, ms__sftp__host__key__check="false").run()
    )
    report = listing(tmp_path / "5", sshd, **none).run()
    assert "there is no such file" in error_of(report)
    assert f"`ssh-keyscan -p {sshd.port} 127.0.0.1 > " in error_of(report)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_a_key_with_a_passphrase_lets_a_user_in(sshd, files, tmp_path, kind):
    key = sshd.make_key(f"{kind}-{tmp_path.name}", kind=kind, passphrase=PASSPHRASE)
    sshd.authorize(key)
    with_key = {"source__conn__private__key": str(key)}
    job = listing(tmp_path / "1", sshd, **with_key, ms__sftp__private__key__passphrase=PASSPHRASE)
    assert error_free(job.run())
    error = error_of(listing(tmp_path / "2", sshd, **with_key).run())
    assert "source.conn.private.key is encrypted" in error
    wrong = {**with_key, "ms__sftp__private__key__passphrase": "wrong words"}
    report = listing(tmp_path / "3", sshd, **wrong).run()
    assert "its passphrase is another one" in error_of(report)
    assert "wrong words" not in str(report)


def test_the_key_itself_may_be_the_secret(sshd, files, tmp_path):
    tmp_path.joinpath("key").write_text(sshd.key.read_text())
    assert error_free(listing(tmp_path, sshd, source__conn__private__key="file:key").run())


def test_a_key_that_the_server_does_not_know_is_refused(sshd, files, tmp_path):
    key = sshd.make_key(f"unknown-{tmp_path.name}")
    error = error_of(listing(tmp_path, sshd, source__conn__private__key=str(key)).run())
    assert error == (
        f"DIL-SRC-AUTH: sftp://127.0.0.1:{sshd.port}: the server refuses the private key"
    )
    error = error_of(listing(tmp_path, sshd, source__conn__private__key="/none").run())
    assert "names a file that cannot be read (No such file or directory)" in error


def test_a_password_lets_a_user_in_after_a_key_was_refused(sshd, tmp_path):
    with PasswordServer("lake", "pass wörd") as server:
        given = {
            "source__class": "sftp", "ms__source__uri": f"sftp://lake@127.0.0.1:{server.port}/in",
            "source__conn__private__key": str(sshd.key), "source__conn__password": "pass wörd",
            "ms__sftp__host__key__fingerprint": server.key.fingerprint,
        }  # fmt: skip
        job = FileJob(tmp_path / "1", **given)
        assert error_free(job.run())
        assert [row["values"] for row in job.rows()] == ["/in/a.json"]
        report = FileJob(tmp_path / "2", **{**given, "source__conn__password": "not it"}).run()
    assert error_of(report).endswith("the server refuses the private key and the password")
    assert "not it" not in str(report)


@pytest.mark.parametrize("in_one_packet", [True, False])
def test_the_proxy_of_the_job_is_gone_through(in_one_packet, sshd, files, tmp_path):
    with ConnectProxy(sshd.port, in_one_packet=in_one_packet) as proxy:
        job = listing(
            tmp_path, sshd, source__conn__use__proxy__url="http://127.0.0.1",
            source__conn__use__proxy__port=proxy.url.rpartition(":")[2],
        )  # fmt: skip
        assert error_free(job.run())
        assert proxy.asked == [f"127.0.0.1:{sshd.port}"]


def test_the_login_of_the_proxy_stands_in_its_url(sshd, files, tmp_path):
    with ConnectProxy(sshd.port, login="lake:a b@c") as proxy:
        port = {"source__conn__use__proxy__port": proxy.url.rpartition(":")[2]}
        named = "http://lake:a%20b%40c@127.0.0.1/"
        job = listing(tmp_path / "1", sshd, source__conn__use__proxy__url=named, **port)
        assert error_free(job.run())
        bare = listing(tmp_path / "2", sshd, source__conn__use__proxy__url="127.0.0.1", **port)
        assert "the proxy: Tunnel connection failed: 407" in error_of(bare.run())


def test_start_up_problems_are_told_together(tmp_path):
    job = FileJob(
        tmp_path, source__class="sftp", ms__source__uri="https://h/x", ms__extractor__class="avro",
        ms__sftp__host__key__fingerprint="md5", source__conn__use__proxy__url="socks5://p",
        source__conn__use__proxy__port="1",
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        job.job()
    assert {problem.key for problem in caught.value.problems} == {
        "ms.source.uri", "ms.extractor.class", "ms.sftp.host.key.fingerprint",
        "source.conn.private.key", "source.conn.use.proxy.url",
    }  # fmt: skip


def test_a_preview_shows_the_first_rows_and_leaves_nothing(sshd, files, tmp_path):
    (files / "large.json").write_bytes(LARGE)
    seen = preview_source(reading(tmp_path, sshd, "large.json").job(), now_ms=NOW, rows=1)
    assert seen.rows.to_pylist()[0]["id"] == 0
    assert not (tmp_path / "lake").exists()


def test_reading_the_job_file_does_not_load_the_client_library(sshd, tmp_path):
    reading(tmp_path, sshd, "a.json").job()
    code = (
        "import sys; from dil import config;"
        f"config.load({str(tmp_path / 'files.conf')!r}, environ={{}});"
        "sys.exit('paramiko' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
    assert paramiko.__version__
