"""``dil secrets``: from standard input to ENC(...), and back."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dil.cli.main import main
from dil.cli.secrets import secrets
from dil.config.table import ALIASES
from dil.errors import ConfigError
from dil.secrets.authenticated import purpose_of

pytestmark = pytest.mark.slow

LEGACY = "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "master.key"
    path.write_text("testkey\n")
    return str(path)


def call(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(secrets, arguments, input=text, standalone_mode=False)


def problem(result: Result) -> str:
    assert isinstance(result.exception, ConfigError)
    return str(result.exception)


def test_a_secret_is_encrypted_and_decrypted_without_its_last_line_end(key: str) -> None:
    written = call("encrypt", "--key", key, text='p@ss "w" \\ ö\n').output.strip()
    assert written.startswith("ENC(v1:")
    assert call("decrypt", "--key", key, "--yes", text=written).output == 'p@ss "w" \\ ö\n'


def test_dils_texts_are_decrypted_too(key: str) -> None:
    assert call("decrypt", "--key", key, "--yes", text=LEGACY).output == "password\n"
    strong = "ENC(AQIDBAUGBwgQ1bWNbnb4UCCN/ijAvqP5)"
    assert call("decrypt", "--key", key, "--yes", "--strong", text=strong).output == "password\n"


def test_nothing_is_decrypted_without_a_yes(key: str) -> None:
    result = call("decrypt", "--key", key, text=LEGACY)
    assert "--yes" in str(result.exception)
    assert "password" not in result.output


@pytest.mark.parametrize("text", ["", "\n"])
def test_no_secret_is_an_error_and_not_an_empty_one(key: str, text: str) -> None:
    assert "standard input is empty" in problem(call("encrypt", "--key", key, text=text))


def test_a_key_file_that_is_missing_or_empty_is_told(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    assert "does not exist" in problem(call("encrypt", "--key", missing, text="a"))
    (tmp_path / "empty").write_text("")
    assert "is empty" in problem(call("encrypt", "--key", str(tmp_path / "empty"), text="a"))


def test_a_wrong_key_and_plain_text_are_told_without_the_text(key: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("other")
    written = call("encrypt", "--key", key, text="t0p-secret").output.strip()
    told = problem(call("decrypt", "--key", str(other), "--yes", text=written))
    assert "no master password fits" in told
    assert written not in told
    assert "t0p-secret" not in problem(call("decrypt", "--key", key, "--yes", text="t0p-secret"))


def test_a_file_is_encrypted_again_when_it_is_asked_for(key: str, tmp_path: Path) -> None:
    job, new = tmp_path / "job.conf", tmp_path / "new.key"
    job.write_bytes(f"a=b\r\nsource.conn.password={LEGACY}\r\n".encode())
    job.chmod(0o640)
    new.write_text("new")
    arguments = ("reencrypt", str(job), "--key", key, "--new-key", str(new))

    assert call(*arguments).output == f"{job}:2\n1 line would change; --write changes the file\n"
    assert LEGACY in job.read_text()

    assert call(*arguments, "--write").output == f"{job}:2\n1 line changed\n"
    assert job.stat().st_mode & 0o777 == 0o640
    first, second, _ = job.read_bytes().decode().split("\r\n")
    assert first == "a=b"
    text = second.partition("=")[2]
    assert call("decrypt", "--key", str(new), "--yes", text=text).output == "password\n"


def test_a_file_that_cannot_be_decrypted_stays_as_it_is(key: str, tmp_path: Path) -> None:
    job, other = tmp_path / "job.conf", tmp_path / "other"
    job.write_text(f"source.conn.password={LEGACY}\n")
    other.write_text("other")
    result = call("reencrypt", str(job), "--key", str(other), "--write")
    assert "line 1: cannot be decrypted" in problem(result)
    assert job.read_text() == f"source.conn.password={LEGACY}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.conf", "master.key", "other"]


def test_planning_decrypts_nothing_and_validation_does(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    job, other = tmp_path / "job.conf", tmp_path / "other"
    other.write_text("other")
    written = call("encrypt", "--key", key, text="t0p").output.strip()
    job.write_text(
        f"job.name=a\nsource.class=http\nms.extractor.class=json\nextract.table.name=a\n"
        f"ms.source.uri=https://shop.test/a\ndata.publisher.final.dir=out\nms.timezone=UTC\n"
        f"encrypt.key.loc={other}\nsource.conn.password={written}\nsource.conn.username=u\n"
        f'ms.authentication={{"method": "basic", "encryption": "base64"}}\n'
    )

    assert main(["plan", str(job), "--json"]) == 0
    assert main(["validate", str(job)]) == 2

    captured = capsys.readouterr()
    assert "source.conn.password cannot be decrypted" in captured.err
    assert written not in captured.err


def test_a_secret_that_moved_to_another_property_is_refused(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    job = tmp_path / "job.conf"
    arguments = ("encrypt", "--key", key, "--for", "source.conn.password")
    written = call(*arguments, text="t0p-secret").output.strip()
    assert written.startswith("ENC(v2:")
    rest = (
        "job.name=a\nsource.class=http\nms.extractor.class=json\nextract.table.name=a\n"
        "ms.source.uri=https://shop.test/a\ndata.publisher.final.dir=out\nms.timezone=UTC\n"
        f"encrypt.key.loc={key}\n"
    )
    basic = 'ms.authentication={"method": "basic", "encryption": "base64"}\n'
    bearer = '{"method": "bearer", "encryption": "none", "token": "${t}"}\n'

    job.write_text(f"{rest}source.conn.username=u\nsource.conn.password={written}\n{basic}")
    assert main(["validate", str(job)]) == 0
    capsys.readouterr()

    job.write_text(f"{rest}t={written}\nms.authentication={bearer}")
    for command in ("validate", "run"):
        assert main([command, str(job)]) == 2
        told = capsys.readouterr().err
        assert "ms.authentication" in told
        assert "was encrypted for source.conn.password and opens only there" in told
        assert "dil secrets encrypt --for ms.authentication" in told
        assert "t0p-secret" not in told
        assert written not in told


def test_a_text_with_a_property_is_decrypted_by_whoever_has_the_key(key: str) -> None:
    arguments = ("encrypt", "--key", key, "--for", "ms.secondary.input:access_token")
    written = call(*arguments, text="t0p").output.strip()
    assert call("decrypt", "--key", key, "--yes", text=written).output == "t0p\n"


def test_an_alias_stands_for_its_property(key: str) -> None:
    alias, name = next(iter(ALIASES.items()))
    written = call("encrypt", "--key", key, "--for", alias, text="t0p").output.strip()
    assert purpose_of(written) == name


@pytest.mark.parametrize(
    ("purpose", "fix"),
    [
        ("ms.authentcation", 'Did you mean "ms.authentication"'),
        ("ms.secondary.input", "ms.secondary.input:FIELD"),
        ("ms.secondary.input:", "ms.secondary.input:FIELD"),
        ("ms.authentication:token", "only the property"),
    ],
)
def test_a_place_that_no_job_reads_is_refused(key: str, purpose: str, fix: str) -> None:
    told = problem(call("encrypt", "--key", key, "--for", purpose, text="t0p"))
    assert fix in told
