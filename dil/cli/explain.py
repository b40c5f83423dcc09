"""``dil explain``: what one property means, its type, default and bounds."""

from __future__ import annotations

import click

from dil.cli.stdout import emit


@click.command()
@click.argument("name", metavar="PROPERTY")
def explain(name: str) -> int:
    """Tell what a property means."""
    # Imported here: the property table is of no use to `dil --help`.
    from dil import config

    emit(f"{config.explain(name)}\n")
    return 0
