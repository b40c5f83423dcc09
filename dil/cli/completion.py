"""Completes commands, options and properties in a shell; ``dil completion`` prints its script."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class, shell_complete

from dil.cli import COMPLETION_VARIABLE
from dil.cli.stdout import emit

_NAME = "dil"
_WHERE = {
    "bash": 'Write it into ~/.bashrc: eval "$(dil completion bash)"',
    "zsh": 'Write it into ~/.zshrc, behind compinit: eval "$(dil completion zsh)"',
    "fish": "Write it to ~/.config/fish/completions/dil.fish: dil completion fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_WHERE)))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a script that completes commands, options, job files and names of properties.

    For bash write eval "$(dil completion bash)" into ~/.bashrc, for zsh the same with zsh into
    ~/.zshrc; for fish let dil completion fish write ~/.config/fish/completions/dil.fish.
    """
    found = get_completion_class(shell)
    if found is None:
        raise AssertionError(f"click knows no {shell}")
    script = found(context.find_root().command, {}, _NAME, COMPLETION_VARIABLE).source()
    emit(f"# {_WHERE[shell]}\n{script}\n")
    return 0


def property_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the properties that begin with a text, followed by ``=`` if they are for -D."""
    from dil.config.table import TABLE  # needed only while a shell completes

    del context
    end = "=" if "definitions" in (parameter.name or "") else ""
    return [f"{name}{end}" for name in sorted(TABLE) if name.startswith(incomplete)]


def answer_shell(cli: click.Command) -> int:
    """Print the words that fit at the cursor, for the completion script of a shell."""
    return shell_complete(
        cli, {}, _NAME, COMPLETION_VARIABLE, os.environ.get(COMPLETION_VARIABLE, "")
    )
