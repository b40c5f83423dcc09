"""``dil explain``: what one property means, its type, default, bounds and members."""

from __future__ import annotations

import click

from dil.cli.stdout import emit, emit_json


@click.command(short_help="Tell what a property means.")
@click.argument("name", metavar="[PROPERTY|GROUP]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def explain(name: str | None, *, as_json: bool) -> int:
    """Tell what a property means; without a name, list the groups of properties."""
    # Imported here: the property table is of no use to `dil --help`.
    from dil.config import explaining

    if as_json:
        emit_json(explaining.explained(name) if name else explaining.groups_json())
    else:
        emit(f"{explaining.explain(name) if name else explaining.groups_text()}\n")
    return 0
