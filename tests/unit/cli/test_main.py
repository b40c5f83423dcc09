"""The command as a whole: fast to import, exact about its exits."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import dil
from dil.cli.backfill import backfill
from dil.cli.main import main
from dil.cli.program import cli
from dil.cli.state import state

ROOT = Path(dil.__file__).parent.parent
HEAVY = {"pyarrow", "pyspark", "requests", "rich", "pydantic", "cryptography", "yaml"}


def python(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("module", ["main", "run", "plan", "validate", "state.showing"])
def test_no_command_imports_anything_heavy_before_it_works(module: str) -> None:
    done = python("-c", f"import dil.cli.{module}, sys; print(*sys.modules)")

    assert done.returncode == 0
    assert HEAVY.isdisjoint(done.stdout.split())


def test_help_imports_no_command() -> None:
    asked = "from dil.cli.main import main; main(['--help']); main(['state', '--help'])"
    done = python("-c", f"import sys; {asked}; print(*sys.modules)")

    assert done.returncode == 0
    unused = {"dil.cli.run", "dil.cli.state.showing", "dil.config", "dil.model.job"}
    assert unused.isdisjoint(done.stdout.split())


@pytest.mark.parametrize("group", [cli, state, backfill], ids=lambda group: group.name)
def test_each_command_that_a_group_lists_is_there(group: click.Group) -> None:
    with group.make_context("dil", [], resilient_parsing=True) as context:
        for name in group.list_commands(context):
            found, command, rest = group.resolve_command(context, [name])
            assert command is not None
            assert (found, command.name, rest) == (name, name, [])
            assert command.callback is not None


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in ("run", "plan", "validate", "state"))


def test_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert dil.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [[], ["no-such"], ["plan"], ["plan", "x.conf", "--no-such"], ["state"], ["run", "a", "b"]],
)  # fmt: skip
def test_a_wrong_command_line_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "Usage: dil" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "subject"),
    [
        (["state", "forget", "no.conf", "--all", "--reason", "a\udcff"], "--reason"),
        (["timelabels", "drop", "no.conf", "--reason", "a\udcff"], "--reason"),
        (["lineage", "no.conf", "--row", "a=\udcff"], "--row"),
    ],
)
def test_a_text_that_is_not_utf_8_is_refused_by_the_name_of_its_option(
    options: list[str], subject: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options) == 2

    assert capsys.readouterr().err.startswith(f"{subject} holds bytes that are not UTF-8\n")


def test_a_reader_that_goes_away_is_no_failure() -> None:
    script = (
        "from dil.cli import stdout\n"
        "assert stdout.emit('first\\n')\n"
        "import sys\n"
        "sys.stdin.readline()\n"
        "assert not stdout.emit('x' * 1_000_000)\n"
        "assert stdout.emit('nobody') is True\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "first\n"
        process.stdout.close()
        process.stdin.write("go on\n")
        process.stdin.flush()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (0, "")


def test_the_file_for_spark_submit_is_dil_run(tmp_path: Path) -> None:
    """It runs as a plain file from elsewhere, where the package is not on the import path."""
    environment = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}

    done = python(
        str(ROOT / "dil" / "submit.py"), "missing.conf", "--json", cwd=tmp_path, env=environment
    )

    assert done.returncode == 2
    assert '"code": "DIL-CONFIG"' in done.stdout


def test_the_file_for_spark_submit_hides_no_module_of_the_standard_library(tmp_path: Path) -> None:
    file = ROOT / "dil" / "submit.py"
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(file.parent)!r})\n"
        f"sys.argv = ['submit.py', '--help']\n"
        f"main = {{'__name__': '__main__', '__file__': {str(file)!r}}}\n"
        "try:\n"
        f"    exec(open({str(file)!r}).read(), main)\n"
        "except SystemExit as stop:\n"
        "    assert stop.code == 0\n"
        "import secrets\n"
        "print(secrets.__file__)\n"
    )

    done = python("-c", script, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip().splitlines()[-1]).name == "secrets.py"


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["plna"], "plan"), (["valdate", "x"], "validate"), (["state", "sho"], "show")],
)
def test_a_misspelt_command_is_answered_with_the_nearest_one(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert f'Did you mean "{meant}"?' in capsys.readouterr().err


def test_a_word_that_is_near_no_command_gets_no_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["xyzzy"]) == 2
    assert "Did you mean" not in capsys.readouterr().err
