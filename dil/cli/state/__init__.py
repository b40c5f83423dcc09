"""``dil state``: shows the state of a job, and lets operators change it."""

from __future__ import annotations

import click

from dil.cli.groups import JobGroup

_AMENDMENTS = "dil.cli.state.amendments"
_STORES = "dil.cli.state.stores"
_COMMANDS = {
    "backup": (f"{_STORES}:backup", "Write the job's state to a file."),
    "copy": (f"{_STORES}:copy_state", "Copy the job's state to another store."),
    "expire": (f"{_AMENDMENTS}:expire", "Delete published files that are too old."),
    "forget": (f"{_AMENDMENTS}:forget", "Make work units as if they had never been read."),
    "gaps": (
        "dil.cli.state.gaps:gaps",
        "Show for each unit which time was read, and which was not.",
    ),
    "import": (
        f"{_AMENDMENTS}:import_highs",
        "Record high watermarks that another store kept.",
    ),
    "log": ("dil.cli.state.showing:log", "Show the chain of blocks, newest first."),
    "prune": (f"{_AMENDMENTS}:prune", "Delete old records that no run needs."),
    "relist": (f"{_AMENDMENTS}:relist", "Record the live files that the dataset has."),
    "restore": (f"{_STORES}:restore", "Replace the job's state by that of a file."),
    "rewind": (f"{_AMENDMENTS}:rewind", "Make all work units as they were at a block."),
    "show": (
        "dil.cli.state.showing:show",
        "Show the newest block and every work unit with its watermarks.",
    ),
    "undo": (f"{_AMENDMENTS}:undo", "Take back the last act of an operator."),
    "upgrade": (f"{_STORES}:upgrade", "Bring the state store to this release's format."),
    "verify": (
        "dil.cli.state.verifying:verify",
        "Recheck the chain, the work units, the published files.",
    ),
    "watermark": (f"{_AMENDMENTS}:watermark", "Show or set the watermark of event time."),
}


@click.group(cls=JobGroup, places=_COMMANDS)
def state() -> None:
    """Look at the state of a job, and repair it.

    `dil state JOB.conf` is `show`. Verbs that change state show a preview, and act with --yes; undo
    takes the act back.
    """
