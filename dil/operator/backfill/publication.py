"""Proposes the publication of a backfill, or the reason to refuse it; changes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import Any

from dil.errors import DilError, StateError
from dil.model.dataset import Move, PublishedFile, UnitEntry, is_compaction
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import WorkUnit, unit_hash
from dil.observe.progress import counted
from dil.operator.amendments.files import late_taken
from dil.operator.amendments.refusals import refusal_of_rewritten
from dil.operator.backfill.definition import BackfillDefinition, configuration_changed
from dil.operator.backfill.status import BackfillStatus, Phase, read_status
from dil.operator.session import OperatorSession
from dil.publishing.layout import unit_hash_in
from dil.spi.state_store import changed_uris
from dil.state.blocks.source_state import COMMITTED, FAILED, PENDING, SKIPPED, delta_in

_EXAMPLES = 3


class RowDecision(Enum):
    """The operator's decision for a job that only appends: add to earlier rows, or replace them."""

    UNDECIDED = "undecided"
    APPEND = "append"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Publication:
    """The changes that publishing a backfill would make.

    ``work_units`` are published. ``stale`` work units are left out, because the job has read them
    since the backfill began. ``removed`` are the live files that are removed as a whole; they do
    not include files that a merge rewrites or that keep rows of other work units. ``late`` moves
    files of late rows aside, because the backfill publishes these rows in the dataset. ``records``
    are the new index rows of ``work_units``; ``changed`` are the ``records`` that differ from the
    present rows. ``shared_file`` is the URI of a live shared file whose work units are unknown,
    empty if there is none. ``refusal`` is the reason against this publication; each of the options
    in ``needs`` lifts the refusal.
    """

    status: BackfillStatus
    mode: PublishMode
    work_units: tuple[WorkUnit, ...]
    stale: tuple[str, ...]
    removed: tuple[PublishedFile, ...]
    records: tuple[UnitEntry, ...]
    changed: tuple[UnitEntry, ...]
    late: tuple[Move, ...] = ()
    shared_file: str = ""
    refusal: DilError | None = None
    needs: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """Return the files of the backfill that would be published."""
        taken = {unit.signature for unit in self.work_units}
        return tuple(file for file in self.status.files if file.signature in taken)


def propose_publication(
    session: OperatorSession,
    definition: BackfillDefinition,
    decision: RowDecision = RowDecision.UNDECIDED,
    *,
    is_partial: bool = False,
) -> Publication:
    """Return the changes that publishing a backfill would make.

    Args:
        session: The job's session; it needs no lease.
        definition: The backfill.
        decision: The operator's choice for a job that only appends.
        is_partial: Whether unread and stale work units may be left out permanently.

    Raises:
        ConfigError: the dataset's destination differs from the job file.
    """
    job = session.job
    session.publisher.destination.check()
    status = read_status(job, definition, session.clock)
    read = [unit for unit in definition.plan.work_units if unit.signature in status.done]
    signatures = {unit.signature for unit in read}
    entries = {
        entry.signature: entry
        for entry in session.store.unit_entries()
        if entry.signature in signatures
    }
    changed = units_changed_since(session.store.blocks(), definition.head)
    fresh = tuple(
        unit
        for unit in read
        if unit.hash not in changed and _is_fresh(unit, entries.get(unit.signature))
    )
    taken = {unit.signature for unit in fresh}
    stale = tuple(sorted(signatures - taken))
    mode, is_append = job.publishing.mode, job.publishing.mode is PublishMode.APPEND
    if mode is PublishMode.REPLACE or (is_append and decision is RowDecision.REPLACE):
        mode = PublishMode.WINDOW_REPLACE  # a backfill replaces only its own work units
    own_live = () if mode is PublishMode.APPEND else session.own_live_files()
    shared_file = next((file.uri for file in own_live if file.has_unknown_units), "")
    is_replacing = mode is PublishMode.WINDOW_REPLACE
    refusal = _refusal(job, status, stale, decision, is_partial=is_partial)
    if refusal is None and is_replacing and shared_file:
        refusal = StateError(
            f"{shared_file} has rows of several work units, which `dil compact` or a merge joined: "
            "it is unknown which of these rows the backfill replaces, so rows would be doubled",
            "Read everything again once with ms.publish.mode=replace; a job that appends can also "
            "add the rows as another version with --append.",
        )
    elif refusal is None and is_replacing:
        refusal = refusal_of_rewritten(session, taken)
    as_read = tuple(_as_read(entries[unit.signature], unit) for unit in fresh)
    return Publication(
        status,
        mode,
        fresh,
        stale,
        removed=tuple(
            file
            for file in own_live
            if is_replacing and file.signatures and file.signatures <= taken
        ),
        records=as_read,
        changed=tuple(entry for entry in as_read if entry != entries[entry.signature]),
        late=() if mode is PublishMode.APPEND else late_taken(session, session.act_id or "", taken),
        shared_file=shared_file,
        refusal=refusal,
        needs=("--append", "--replace") if _is_undecided(job, decision) else (),
    )


def _is_undecided(job: Job, decision: RowDecision) -> bool:
    return job.publishing.mode is PublishMode.APPEND and decision is RowDecision.UNDECIDED


def _is_fresh(unit: WorkUnit, entry: UnitEntry | None) -> bool:
    """Return whether the job has a record of a work unit and has not read beyond the unit's end."""
    return (
        entry is not None
        and entry.status != PENDING
        and (entry.high is None or entry.high <= unit.high)
    )


def _as_read(entry: UnitEntry, unit: WorkUnit) -> UnitEntry:
    """Return the index row of a published work unit: a failed or skipped one counts as read.

    It stays failed if neither the job nor the backfill reached its end.
    """
    if entry.status not in {FAILED, SKIPPED} or entry.expected_high > unit.high:
        return entry
    return replace(entry, high=unit.high, expected_high=unit.high, status=COMMITTED)


def _refusal(
    job: Job,
    status: BackfillStatus,
    stale: Sequence[str],
    decision: RowDecision,
    *,
    is_partial: bool,
) -> DilError | None:
    """Return why a backfill cannot be published, None if it can."""
    definition, phase = status.definition, status.phase
    name = definition.id
    if phase in (Phase.PUBLISHED, Phase.UNDONE):
        return StateError(f"backfill {name} is {phase}", "Begin a new backfill of the range.")
    if definition.digest not in job.known_digests:
        return configuration_changed(definition)
    missing = len(definition.plan.work_units) - len(status.done)
    if missing and not is_partial:
        return StateError(
            f"backfill {name} is not complete: {counted(missing, 'work unit')} of "
            f"{len(definition.plan.work_units):,} not read, {len(status.failed):,} of "
            "them failed",
            f"`dil backfill resume {shlex.quote(job.path)} {name}` reads the rest; --partial "
            "publishes the work units that were read, and leaves out the rest for good.",
        )
    if stale and not is_partial:
        examples = ", ".join(stale[:_EXAMPLES])
        return StateError(
            f"{counted(len(stale), 'work unit')} of backfill {name} changed in the job since it "
            f"began ({examples}): runs read them again or read more of them, another backfill was "
            "published, or an operator forgot them. Publishing them would lose or double rows",
            "Begin a new backfill of the range, or leave these work units out with --partial.",
        )
    if _is_undecided(job, decision):
        return StateError(
            "ms.publish.mode is append: say whether the rows replace the earlier rows of the same "
            "work units, or are added as another version",
            "Give --replace or --append.",
        )
    return None


def units_changed_since(blocks: Iterable[JsonObject], head: str) -> frozenset[str]:
    """Return the hashes of work units that were read again, forgotten or published since a block.

    Failed attempts of runs and ``dil compact`` do not count: they change no rows.

    Args:
        blocks: The blocks of the job's chain, newest first; read down to ``head``.
        head: The hash of the block. If ``head`` is empty, or no block has this hash, all blocks
            count.
    """
    found: set[str] = set()
    after: set[str] = set()
    failed: list[set[str]] = []
    for block in blocks:
        event: Any = block["event"]
        if event["kind"] == "ResetState":
            if is_compaction(str(event.get("act"))):
                after = set()  # the data block after this block belongs to the compaction
            elif count := int(event.get("dataBlocks", 0)):
                found.update(*failed[-count:])  # an act names the work units that it changed
            failed.clear()
        found |= after
        if block["hash"] == head:
            return frozenset(found)
        after = set(map(unit_hash_in, chain(*changed_uris(block))))
        later: set[str] = set()
        for row in delta_in(block):
            units = later if row.get("status") == FAILED else after
            units.add(unit_hash(str(row["sig"])))
        if event["kind"] == "AddData":
            failed.append(later)
    return frozenset(found | after)
