"""Commands of ``dil`` that pages show: each has verbs and options that are there.

Those that only look, at a job file of this repository, run as shown.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dil.cli.main import main
from dil.cli.program import cli

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_SHELLS = {"", "console", "bash", "sh", "shell", "text"}
_DIL = {"dil", ".venv/bin/dil"}
# They read nothing but the job file and its state, and send nothing.
_LOOKS = {"validate", "plan"}
_TELLS = {"explain", "completion", "schema"}


def commands(page: Path) -> Iterator[tuple[str, ...]]:
    """Yield the words behind ``dil`` of each command in the blocks of a page."""
    for block in _FENCE.finditer(page.read_text(encoding="utf-8")):
        if block[2] not in _SHELLS:
            continue
        text = block[3].replace("\\\n", " ")
        for line in text.splitlines():
            shown = line.strip().removeprefix("$ ")
            is_command = line.strip().startswith("$ ") or block[2] in {"bash", "sh", "shell"}
            if is_command:
                yield from _of_line(shown)


def _of_line(line: str) -> Iterator[tuple[str, ...]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words = list(lexer)
    while words:
        end = next((at for at, word in enumerate(words) if set(word) <= set("();<>|&")), len(words))
        command, words = words[:end], words[end + 1 :]
        while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):  # of the environment
            command = command[1:]
        if command[1:] and command[0] in _DIL:
            yield tuple(command[1:])


COMMANDS = sorted({(page.name, words) for page in PAGES for words in commands(page)})
LOOKS = [
    words
    for _, words in COMMANDS
    if words[0] in _TELLS or (words[0] in _LOOKS and (ROOT / words[1]).is_file())
]


def parse(words: tuple[str, ...]) -> None:
    """Parse a command down to its last verb, and run nothing."""
    command: click.Command = cli
    context, arguments = None, list(words)
    name = "dil"
    while True:
        context = command.make_context(name, arguments, parent=context)
        if not isinstance(command, click.Group):
            return
        arguments = [*context._protected_args, *context.args]
        found, inner, arguments = command.resolve_command(context, arguments)
        assert inner is not None
        name, command = found or "", inner


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=lambda each: each if isinstance(each, str) else " ".join(each)
)
def test_a_command_of_a_page_has_verbs_and_options_that_are_there(
    page: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del page
    monkeypatch.chdir(tmp_path)
    for word in words:
        if word.endswith(".py"):  # an option names a file that has to be there
            (tmp_path / word).touch()
    with contextlib.suppress(click.exceptions.Exit):  # --help, --version
        parse(words)


def test_pages_have_commands() -> None:
    assert len(COMMANDS) > 50
    assert len(LOOKS) > 2


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_command_that_only_looks_runs_as_shown(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DEMO_API", "http://127.0.0.1:9")
    monkeypatch.setenv("DEMO_TOKEN", "demo")
    out = [
        str(tmp_path / "plan") if words[at - 1] == "--out" else word
        for at, word in enumerate(words)
    ]
    state = ["-D", f"state.store.dir={tmp_path}/state"] if words[0] in _LOOKS else []
    assert main([*out, *state]) == 0
