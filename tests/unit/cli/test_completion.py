"""A real shell completes commands, options and properties by the script that dil prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dil.cli.main import main

DIL = Path(sys.executable).with_name("dil")
ASK = """
compopt() {{ echo "$@"; }}  # what only a prompt has
eval "$("$DIL" completion bash)"
COMP_WORDS=("$DIL" {words})
COMP_CWORD={cursor}
_dil_completion "$DIL"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(folder: Path, *words: str) -> set[str]:
    """Return what bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in words)
    asked = ASK.format(words=quoted, cursor=len(words))
    found = subprocess.run(
        ["bash", "--norc", "-c", asked],
        env={"DIL": str(DIL), "PATH": os.environ["PATH"], "HOME": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stderr == ""
    return set(found.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ex",), {"explain"}),
        (("pl",), {"plan"}),
        (("plan", "--sig"), {"--signature", "--signatures"}),
        (("state", "sh"), {"show"}),
        (("explain", "ms.grace.per"), {"ms.grace.period", "ms.grace.period.days"}),
        (("run", "-D", "ms.grace.per"), {"ms.grace.period=", "ms.grace.period.days="}),
        (("completion", ""), {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes_commands_options_and_properties(
    tmp_path: Path, words: tuple[str, ...], offered: set[str]
) -> None:
    assert completed(tmp_path, *words) == offered


def test_bash_completes_job_files(tmp_path: Path) -> None:
    (tmp_path / "orders.conf").touch()
    assert completed(tmp_path, "plan", "ord") == {"-o", "default"}  # files, by bash itself


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_DIL_COMPLETE={shell}_complete" in script
    assert script.startswith("# Write it ")


def test_another_shell_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_a_misspelt_option_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "x.conf", "--shrt"]) == 2
    assert "Did you mean one of: '--short'" in capsys.readouterr().err
