"""The verb ``import``: go on from the high watermarks that another store kept (D-88)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dil.acts.desk import Desk
from dil.acts.preview import Preview, preview_of
from dil.state import operations
from dil.state.importing import ImportFile, read_import
from dil.state.signatures import decoded, encoded, parts_of_signature


def propose_import(desk: Desk, path: str, form: str, *, replaces: bool = False) -> Preview:
    """Record the high watermarks of a file, so that a job that comes from DIL does not start over.

    Args:
        desk: The job's desk.
        path: A local file; rows of other jobs are left out.
        form: ``csv`` with the header job,signature,high, or ``json``: one object a line.
        replaces: Whether a known high watermark may be lowered.

    Raises:
        ConfigError: something is wrong with the file; nothing of it is imported.
        StateError: a known high watermark would be lowered and ``replaces`` is off.
    """
    found = read_import(path, form, desk.job.name, spelling=_spelling(desk))
    proposal = operations.import_highs(desk.store.unit_entries(), found.highs, replaces=replaces)
    return preview_of(desk, replace(proposal, notes=(*_notes(desk, found), *proposal.notes)))


def _spelling(desk: Desk) -> Callable[[str], str]:
    """Return how to read ``%2F``: as ``/``, but for units of the job that hold it literally."""
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
