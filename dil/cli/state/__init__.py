"""``dil state``: shows the state of a job, and lets operators change it."""

from __future__ import annotations

import click

from dil.cli.groups import JobGroup
from dil.cli.state.amendments import expire, forget, prune, relist, rewind, undo
from dil.cli.state.gaps import gaps
from dil.cli.state.importing import import_highs
from dil.cli.state.showing import log, show
from dil.cli.state.stores import backup, copy_state, restore, upgrade
from dil.cli.state.verifying import verify
from dil.cli.state.watermark import watermark


@click.group(cls=JobGroup)
def state() -> None:
    """Look at the state of a job, and repair it.

    `dil state JOB.conf` is `show`. Verbs that change state show a preview, and act with --yes; undo
    takes the act back.
    """


AMENDING = (forget, rewind, undo, import_highs, prune, expire, relist)
WHOLE = (upgrade, backup, restore, copy_state)
for command in (show, log, gaps, verify, watermark, *AMENDING, *WHOLE):
    state.add_command(command)
