"""``dil package``: what cannot be written is told as a user's mistake, not as ours."""

import zipfile
from pathlib import Path

import pytest

from dil.cli.main import main


def test_the_zip_holds_our_packages_and_the_users_modules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "shop.py"
    module.write_text("X = 1\n")
    out = tmp_path / "new" / "dil.zip"

    assert main(["package", "--out", str(out), "--module", str(module)]) == 0

    with zipfile.ZipFile(out) as archive:
        assert {"shop.py", "dil/submit.py", "connectors/http/session.py"} <= set(archive.namelist())
    assert f"--py-files {out}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags",
    [["--out", "/proc/z.zip"], ["--out", "{file}/z.zip"], ["--libraries", "/proc/z.tar.gz"]],
)
def test_an_archive_that_cannot_be_written_is_a_write_error(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    out = [] if "--out" in flags else ["--out", str(tmp_path / "dil.zip")]

    assert main(["package", *out, *(flag.format(file=tmp_path / "file") for flag in flags)]) == 1

    error = capsys.readouterr().err
    assert "[DIL-WRITE]" in error
    assert "--out" in error
