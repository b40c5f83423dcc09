"""``dil state import``: go on from the high watermarks that another store kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dil.cli.state.acting import Desk, Request, act_command, at_desk, conclude

if TYPE_CHECKING:
    from dil.state.importing import ImportFile


@act_command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "json"]),
    help="CSV with the header job,signature,high, or one JSON object a line. By the file's name.",
)
@click.option("--replace", "replaces", is_flag=True, help="Known high watermarks may be lowered.")
def import_highs(request: Request, *, file: str, form: str | None, replaces: bool) -> int:
    """Import high watermarks, so that a job that comes from DIL does not start over.

    Rows of other jobs are left out. All of the file is imported, or nothing.
    """
    from dil.state import importing, operations

    with at_desk(request, "import") as desk:
        is_json = Path(file).suffix.lower() in {".json", ".jsonl", ".ndjson"}
        found = importing.read_import(
            file, form or ("json" if is_json else "csv"), desk.job.name, spelling=_spelling(desk)
        )
        proposal = operations.import_highs(
            desk.store.unit_entries(), found.highs, replaces=replaces
        )
        notes = (*_notes(desk, found), *proposal.notes)
        return conclude(desk, replace(proposal, notes=notes))


def _spelling(desk: Desk) -> Callable[[str], str]:
    """Return how to read ``%2F``: as ``/``, but for units of the job that hold it literally."""
    from dil.state.signatures import decoded, encoded, parts_of_signature

    literal = {encoded(unit): unit for unit in desk.job.planning.units or () if "%2F" in unit}

    def spelled(text: str) -> str:
        parts = parts_of_signature(text) if literal else None
        unit = literal.get(encoded(parts.unit_json)) if parts else None
        if parts is None or unit is None:
            return decoded(text)
        return text[: -len(parts.unit_json) - 1] + unit + "]"

    return spelled


def _notes(desk: Desk, found: ImportFile) -> tuple[str, ...]:
    notes = [f"{found.rows:,} rows read, {len(found.highs):,} high watermarks of this job"]
    if found.others:
        notes.append(f"{found.others:,} rows of other jobs are left out")
    if found.unsuccessful:
        notes.append(f"{found.unsuccessful:,} work units never succeeded: they stay unread")
    planned = _planned(desk, found)
    if found.highs and not planned:
        notes.append(
            "WARNING: none of them is a work unit of this job as it is configured now; compare "
            "from, zone, partition type and units with the old job's"
        )
    elif found.highs:
        notes.append(f"{planned:,} of them are work units of the job as it is configured now")
    return tuple(notes)


def _planned(desk: Desk, found: ImportFile) -> int:
    """Return how many of the imported signatures the job has; any unit where it asks for them."""
    grid, spec = desk.grid(), desk.job.planning
    keys = None if spec.units is None else {f"{spec.unit_name}.{unit}" for unit in spec.units}
    count = 0
    for high in found.highs:
        parts = high.parts
        if parts.low in grid and parts.datetime_name == spec.datetime_name:
            count += keys is None or parts.unit_key in keys
    return count
