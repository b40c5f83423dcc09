"""The verb ``import``: the job continues from another store's high watermarks (rule P32)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dil.errors import ConfigError
from dil.observe.progress import counted
from dil.operator.amendments.preview import Preview, preview_of
from dil.operator.session import OperatorSession
from dil.state.amendments import operations
from dil.state.amendments.importing import ImportFile, ImportLimits, read_import
from dil.state.work_units.signatures import decoded, encoded, parts_of_signature

_JOBS_SHOWN = 5


def propose_import(
    session: OperatorSession, path: str, form: str, *, replaces: bool = False
) -> Preview:
    """Propose to record a file's high watermarks: a job moved from DIL does not start again.

    Args:
        session: The operator's session.
        path: A local file; rows of other jobs are left out.
        form: ``csv`` with the header job,signature,high, or ``json``: one object a line.
        replaces: Whether a known high watermark may be lowered.

    Raises:
        ConfigError: the file has mistakes, or only rows of other jobs; nothing is imported.
        StateError: a known high watermark would be lowered, and ``replaces`` is false.
    """
    limits = ImportLimits(session.partition_ends(), max(session.clock(), session.now_ms))
    found = read_import(path, form, session.job.name, spelling=_spelling(session), limits=limits)
    if found.others and sum(found.others.values()) == found.rows:
        names = ", ".join(sorted(found.others)[:_JOBS_SHOWN])
        more = len(found.others) - _JOBS_SHOWN
        raise ConfigError.single(
            path,
            f"has no row of {session.job.name}; its rows are of {names}"
            + (f" and {counted(more, 'other job')}" if more > 0 else ""),
            "The column job must hold the job.name of the job file.",
        )
    proposal = operations.import_highs(session.store.unit_entries(), found.highs, replaces=replaces)
    return preview_of(session, replace(proposal, notes=(*_notes(session, found), *proposal.notes)))


def _spelling(session: OperatorSession) -> Callable[[str], str]:
    """Return the function that reads ``%2F`` as ``/``, except in units that hold it literally."""
    literal = {encoded(unit): unit for unit in session.job.planning.units or () if "%2F" in unit}

    def spelled(text: str) -> str:
        parts = parts_of_signature(text) if literal else None
        unit = literal.get(encoded(parts.unit_json)) if parts else None
        if parts is None or unit is None:
            return decoded(text)
        return text[: -len(parts.unit_json) - 1] + unit + "]"

    return spelled


def _notes(session: OperatorSession, found: ImportFile) -> tuple[str, ...]:
    notes = [
        f"{counted(found.rows, 'row')} read, {counted(len(found.highs), 'high watermark')} of "
        "this job"
    ]
    if found.others:
        others = counted(sum(found.others.values()), "row")
        notes.append(f"left out: {others} of {counted(len(found.others), 'other job')}")
    if found.unsuccessful:
        units = counted(found.unsuccessful, "work unit")
        notes.append(f"left out, because they never succeeded: {units}")
    # How many are work units of the job as it is configured now. A job that asks its source for the
    # units may have any unit.
    starts, spec = session.partition_ends(), session.job.planning
    keys = None if spec.units is None else {f"{spec.unit_name}.{unit}" for unit in spec.units}
    planned = 0
    for high in found.highs:
        parts = high.parts
        if parts.low in starts and parts.datetime_name == spec.datetime_name:
            planned += keys is None or parts.unit_key in keys
    if found.highs and not planned:
        notes.append(
            "WARNING: none of them is a work unit of this job as it is configured now; compare "
            "from, zone, partition type and units with those of the old job"
        )
    elif found.highs:
        units = counted(planned, "work unit")
        notes.append(f"of the job as it is configured now: {units}")
    return tuple(notes)
