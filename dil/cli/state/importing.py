"""``dil state import``: imports the high watermarks that another store kept."""

from __future__ import annotations

from pathlib import Path

import click

from dil.cli.state.amending import Request, act_command, conclude, operator_session
from dil.operator.amendments import propose_import

_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")


@act_command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "json"]),
    help="CSV with the header job,signature,high, or one JSON object a line. By the file's name.",
)
@click.option(
    "--replace", "replaces", is_flag=True, help="Allow lower high watermarks than the known ones."
)
def import_highs(request: Request, *, file: str, form: str | None, replaces: bool) -> int:
    """Import high watermarks, so that a job of LinkedIn's DIL does not start again.

    Rows of other jobs are left out. The whole file is imported, or nothing.
    """
    by_name = "json" if Path(file).suffix.lower() in _JSON_SUFFIXES else "csv"
    with operator_session(request, "import") as session:
        preview = propose_import(session, file, form or by_name, replaces=replaces)
        return conclude(request, session, preview)
