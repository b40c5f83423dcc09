"""Groups of commands that know what a misspelt command may have meant."""

from __future__ import annotations

import difflib

import click


class SuggestingGroup(click.Group):
    """A group that answers an unknown command with the nearest known one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments.

        Raises:
            click.UsageError: there is none; the message names the nearest one.
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
