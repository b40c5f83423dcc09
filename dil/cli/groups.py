"""Groups of commands: import a command when it is called, suggest one for a misspelt name."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

_JOB_SUFFIXES = frozenset({".conf", ".pull", ".job", ".properties", ".yaml", ".yml"})


class LazyGroup(click.Group):
    """A group that answers an unknown command with the nearest known one.

    ``places`` has the commands that are imported when they are called, in the order of the help
    text: name -> ("module:command", its summary in lists). Lists import none of the commands.
    """

    def __init__(
        self,
        *,
        places: Mapping[str, tuple[str, str]] | None = None,
        **options: Any,  # the options of click.Group
    ) -> None:
        self._places = places or {}
        listed = [
            click.Command(name, short_help=summary) for name, (_, summary) in self._places.items()
        ]
        super().__init__(commands=listed, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help text."""
        return list(self._places) or super().list_commands(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, and import it.

        Raises:
            click.UsageError: there is no such command; the message names the nearest command.
        """
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            raise click.UsageError(
                f'No such command "{args[0]}". Did you mean "{near[0]}"?', ctx
            ) from error
        if name is not None and name in self._places:
            module, _, member = self._places[name][0].partition(":")
            command = getattr(importlib.import_module(module), member)
        return name, command, rest


class JobGroup(LazyGroup):
    """A group whose first argument may be a job file: then the command is ``shown``.

    A job file that has the name of a command, without an ending, needs ``./`` before the name.
    """

    shown = "show"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; it is ``shown`` if they begin with a job."""
        first = args[0]
        is_command = self.get_command(ctx, first) is not None
        path = Path(first)
        is_job = path.suffix in _JOB_SUFFIXES or os.sep in first or path.is_file()
        if not is_command and is_job:
            args = [self.shown, *args]
        return super().resolve_command(ctx, args)
