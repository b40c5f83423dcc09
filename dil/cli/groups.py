"""Groups of commands that suggest the nearest command for a misspelt one."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import click

_JOB_SUFFIXES = frozenset({".conf", ".pull", ".job", ".properties", ".yaml", ".yml"})


class SuggestingGroup(click.Group):
    """A group that answers an unknown command with the nearest known one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments.

        Raises:
            click.UsageError: there is no such command; the message names the nearest one.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            raise click.UsageError(
                f'No such command "{args[0]}". Did you mean "{near[0]}"?', ctx
            ) from error


class JobGroup(SuggestingGroup):
    """A group whose first word may be a job file: then ``shown`` is the command that is meant.

    A job file without an ending whose name is a command needs ``./`` before it.
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
