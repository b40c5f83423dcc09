"""``dil backfill``: reads a range again beside its dataset, compares, publishes, takes back."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from dil.cli.groups import LazyGroup

backfill_id_argument = click.argument("backfill_id", metavar="ID")
_COMMANDS = {
    "diff": ("dil.cli.backfill.inspecting:diff", "Compare a backfill with the live rows."),
    "drop": ("dil.cli.backfill.inspecting:drop", "Delete the rows of a backfill."),
    "list": ("dil.cli.backfill.listing:list_backfills", "List the backfills of a job."),
    "publish": ("dil.cli.backfill.publishing:publish", "Publish the rows of a backfill."),
    "resume": ("dil.cli.backfill.reading:resume", "Go on with a backfill by its id."),
    "start": ("dil.cli.backfill.reading:start", "Read a range again, or go on with it."),
    "undo": (
        "dil.cli.backfill.publishing:undo",
        "Bring back what a published backfill replaced.",
    ),
}


class _StartingGroup(LazyGroup):
    """A group that begins a backfill if a job file follows its name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, or ``start`` if they begin with a job file."""
        names = self.list_commands(ctx)
        word = args[0]
        is_misspelt = difflib.get_close_matches(word, names, n=1) and not Path(word).exists()
        if word in names or is_misspelt:
            return super().resolve_command(ctx, args)
        return super().resolve_command(ctx, ["start", *args])


@click.group(
    cls=_StartingGroup,
    places=_COMMANDS,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[JOB.conf --from TIME --to TIME]",
    subcommand_metavar="| COMMAND [ARGS]...",
)
def backfill() -> None:
    """Read a range of a job again, beside its live data.

    dil backfill JOB.conf --from TIME --to TIME reads the range, and continues if it was killed.
    Then compare the backfill with the live rows, publish it, take it back, or drop it.
    """
