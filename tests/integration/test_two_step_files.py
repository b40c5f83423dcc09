"""DIL's two-step download as its job files stand, with a real OpenSSH server and a real GnuPG."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.model.report import RunStatus
from tests.integration.test_patterns_of_dil import DilFlow
from tests.servers.hdfs import Hdfs
from tests.servers.programs import needed_program
from tests.servers.sftp import SftpServer

NOW = "2024-01-10T12:00:00Z"
PHRASE = "Bye"  # what ENC(AQWoQ2Ybe8KXDXwPOA1Ziw==) of the job file is
FILES = {f"sales_2024010{day}.csv": b"id,amount\n" + b"%d,1\n" % day * 5000 for day in (5, 6)}


@pytest.fixture(scope="module")
def server() -> Iterator[SftpServer]:
    with SftpServer() as running:
        yield running


@pytest.fixture
def flow(
    server: SftpServer, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DilFlow:
    return DilFlow.of_lake("http://127.0.0.1:9", tmp_path, hdfs, monkeypatch)


class Sealer:
    """GnuPG as the vendor has it: seals files for the lake's key."""

    def __init__(self, home: str) -> None:
        # Else the agent measures for seconds how often it can hash a pass phrase.
        Path(home, "gpg-agent.conf").write_text("s2k-count 65536\n")
        self._command = [needed_program("gpg"), "--homedir", home, "--batch", "--yes",
                         "--pinentry-mode", "loopback", "--passphrase", PHRASE]  # fmt: skip
        self.run("--quick-generate-key", "lake@acme.example", "default", "default", "never")

    def run(self, *arguments: str, data: bytes = b"") -> bytes:
        return subprocess.run(
            [*self._command, *arguments], input=data, check=True, capture_output=True
        ).stdout

    def seal(self, data: bytes) -> bytes:
        return self.run("--trust-model", "always", "-r", "lake@acme.example", "-e", data=data)


@pytest.fixture
def sealer() -> Iterator[Sealer]:
    with tempfile.TemporaryDirectory(prefix="dil-keys-") as home:
        yield Sealer(home)
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


def test_files_of_a_server_are_listed_then_fetched_once_and_decrypted(
    flow: DilFlow, server: SftpServer, hdfs: Hdfs, sealer: Sealer
) -> None:
    daily = server.files / "outbound" / "daily"
    daily.mkdir(parents=True)
    for name, body in FILES.items():
        (daily / f"{name}.gpg").write_bytes(sealer.seal(body))
    (daily / "readme.txt").write_text("not for the lake")
    flow.serve(server)
    (flow.keys / "secring.gpg").write_bytes(sealer.run("--export-secret-keys"))
    report = flow.job("3a-list.pull", now=NOW)
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 2), report.failures

    report = flow.job("3b-download.pull", now=NOW)
    assert report.status is RunStatus.SUCCESS, report.failures
    raw = f"/data/lake/acme/raw{daily}"
    assert {name.rpartition("/")[2]: body for name, body in flow.files(raw).items()} == FILES
    modes = hdfs.ask("GET", raw, "LISTSTATUS").json()["FileStatuses"]["FileStatus"]
    assert {each["permission"] for each in modes} == {"640"}

    (daily / "sales_20240107.csv.gpg").write_bytes(sealer.seal(b"id\n7\n"))
    flow.job("3a-list.pull", now="2024-01-11T12:00:00Z")
    report = flow.job("3b-download.pull", now="2024-01-11T12:00:00Z")
    assert [re.sub(".*/", "", each) for each in report.files] == ["sales_20240107.csv"]
