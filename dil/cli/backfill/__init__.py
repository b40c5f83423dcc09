"""``dil backfill``: a range read again beside its dataset, compared, published, taken back."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from dil.cli.backfill.inspecting import diff, drop, list_backfills
from dil.cli.backfill.publishing import publish, undo
from dil.cli.backfill.reading import resume, start
from dil.cli.groups import SuggestingGroup


class _StartingGroup(SuggestingGroup):
    """A group whose name alone, with a job file behind it, begins a backfill."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments; ``start`` if they begin with a job file."""
        names = self.list_commands(ctx)
        word = args[0]
        is_misspelt = difflib.get_close_matches(word, names, n=1) and not Path(word).exists()
        if word in names or is_misspelt:
            return super().resolve_command(ctx, args)
        return super().resolve_command(ctx, ["start", *args])


@click.group(
    cls=_StartingGroup,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[JOB.conf --from TIME --to TIME]",
    subcommand_metavar="| COMMAND [ARGS]...",
)
def backfill() -> None:
    """Read a range of a job again, beside its live data.

    dil backfill JOB.conf --from TIME --to TIME reads the range, and continues if it was killed.
    Then compare the backfill with the live rows, publish it, take it back, or drop it.
    """


for command in (start, resume, list_backfills, diff, publish, undo, drop):
    backfill.add_command(command)
