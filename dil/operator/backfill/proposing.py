"""What publishing a backfill would change, and what speaks against it; nothing is changed here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from dil import publishing
from dil.errors import DilError, StateError
from dil.model.dataset import PublishedFile, UnitEntry
from dil.model.job import Job, PublishMode
from dil.model.work_unit import WorkUnit
from dil.observe.progress import counted
from dil.operator.acts.desk import Desk
from dil.operator.backfill.definition import Definition, other_configuration
from dil.operator.backfill.standing import Standing, Status, standing_of
from dil.operator.backfill.touched import touched_since
from dil.state.blocks.source_state import COMMITTED, FAILED, PENDING, SKIPPED

_EXAMPLES = 3


class How(Enum):
    """How rows of a job that only appends come in: beside those of earlier runs or for them."""

    UNDECIDED = "undecided"
    APPEND = "append"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Publication:
    """What publishing a backfill would change.

    ``work_units`` are those whose rows come in, ``stale`` those that stay out because the job went
    on with them since. ``removed`` are the live files that go as a whole; what a merge rewrites is
    not known before. ``changed`` are rows of the job's index. ``mixed`` is the URI of a live file
    with rows of several work units, if there is one. ``refusal`` is why it is not done, and
    ``needs`` the options of which one lifts that.
    """

    standing: Standing
    mode: PublishMode
    work_units: tuple[WorkUnit, ...]
    stale: tuple[str, ...]
    removed: tuple[PublishedFile, ...]
    changed: tuple[UnitEntry, ...]
    mixed: str = ""
    refusal: DilError | None = None
    needs: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """Return the files of the backfill that come in."""
        taken = {unit.signature for unit in self.work_units}
        return tuple(file for file in self.standing.files if file.signature in taken)


def propose(
    desk: Desk, definition: Definition, how: How = How.UNDECIDED, *, is_partial: bool = False
) -> Publication:
    """Return what publishing a backfill would change; changes nothing.

    Args:
        desk: The job's desk, see ``open_desk``.
        definition: The backfill.
        how: What is wanted where the job only appends.
        is_partial: Whether work units that are not read, or stale, may stay out for good.

    Raises:
        ConfigError: the destination is not as the job says: rows could not be published there.
    """
    publishing.destination_for(desk.job.publishing, desk.filesystem()).check()
    standing = standing_of(desk.job, definition, desk.clock)
    read = [unit for unit in definition.plan.work_units if unit.signature in standing.done]
    wanted = {unit.signature for unit in read}
    entries = {
        entry.signature: entry for entry in desk.store.unit_entries() if entry.signature in wanted
    }
    touched = touched_since(desk.store.blocks(), definition.head)
    fresh = tuple(
        unit
        for unit in read
        if unit.hash not in touched and _is_fresh(unit, entries.get(unit.signature))
    )
    stale = tuple(sorted(wanted.difference(unit.signature for unit in fresh)))
    mode = _mode(desk.job, how)
    landed = [_landed(entries[unit.signature], unit) for unit in fresh]
    mixed = "" if mode is PublishMode.APPEND else _mixed(own_live(desk))
    refusal = _refusal(desk.job, standing, stale, how, is_partial=is_partial)
    if refusal is None and mixed and mode is PublishMode.WINDOW_REPLACE:
        refusal = _mixed_up(mixed)
    return Publication(
        standing,
        mode,
        fresh,
        stale,
        removed=_removed(desk, mode, fresh),
        changed=tuple(entry for entry in landed if entry != entries[entry.signature]),
        mixed=mixed,
        refusal=refusal,
        needs=("--append", "--replace") if _is_undecided(desk.job, how) else (),
    )


def own_live(desk: Desk) -> tuple[PublishedFile, ...]:
    """Return the live files of the job; those of others that append to the dataset are not."""
    return live_of(desk, PublishMode.WINDOW_REPLACE)


def all_live(desk: Desk) -> tuple[PublishedFile, ...]:
    """Return the files that are live now."""
    return publishing.destination_for(desk.job.publishing, desk.filesystem()).live()


def live_of(desk: Desk, mode: PublishMode) -> tuple[PublishedFile, ...]:
    """Return the live files; only the job's own where another job may append to the dataset."""
    live = all_live(desk)
    if desk.job.publishing.mode is not PublishMode.APPEND or mode is PublishMode.APPEND:
        return live
    own = desk.store.own_files(live)
    return tuple(file for file in live if file.uri in own)


def _mode(job: Job, how: How) -> PublishMode:
    """Return how files come in: a backfill never replaces more than its own work units."""
    mode = job.publishing.mode
    if mode is PublishMode.REPLACE or (mode is PublishMode.APPEND and how is How.REPLACE):
        return PublishMode.WINDOW_REPLACE
    return mode


def _is_undecided(job: Job, how: How) -> bool:
    return job.publishing.mode is PublishMode.APPEND and how is How.UNDECIDED


def _removed(desk: Desk, mode: PublishMode, units: Sequence[WorkUnit]) -> tuple[PublishedFile, ...]:
    if mode is not PublishMode.WINDOW_REPLACE:
        return ()
    taken = {unit.signature for unit in units}
    return tuple(file for file in live_of(desk, mode) if file.signature in taken)


def _is_fresh(unit: WorkUnit, entry: UnitEntry | None) -> bool:
    """Tell whether the job has read a work unit no further since, and still counts it."""
    return (
        entry is not None
        and entry.status != PENDING
        and (entry.high is None or entry.high <= unit.high)
    )


def _landed(entry: UnitEntry, unit: WorkUnit) -> UnitEntry:
    """Return the row of a work unit whose rows are there now: what failed or was skipped is read.

    Not where that has an end that the backfill did not reach.
    """
    if entry.status not in {FAILED, SKIPPED} or entry.expected_high > unit.high:
        return entry
    return replace(entry, high=unit.high, expected_high=unit.high, status=COMMITTED)


def _mixed(live: Sequence[PublishedFile]) -> str:
    """Return the URI of a file of ours that belongs to no single work unit, empty without one."""
    return next((file.uri for file in live if file.run_id and not file.signature), "")


def _mixed_up(uri: str) -> StateError:
    return StateError(
        f"{uri} holds rows of several work units, which `dil compact` or a merge put together: "
        "the rows that a backfill is to replace cannot be told, and would be there twice",
        "Read everything anew once with ms.publish.mode=replace; a job that appends can also take "
        "the rows as another version with --append.",
    )


def _refusal(
    job: Job, standing: Standing, stale: Sequence[str], how: How, *, is_partial: bool
) -> DilError | None:
    """Return why a backfill cannot be published, None where it can."""
    name = standing.definition.id
    if standing.status in (Status.PUBLISHED, Status.UNDONE):
        return StateError(f"backfill {name} is {standing.status}", "Begin a new one of the range.")
    if standing.definition.digest not in job.known_digests:
        return other_configuration(standing.definition)
    missing = len(standing.definition.plan.work_units) - len(standing.done)
    if missing and not is_partial:
        return StateError(
            f"backfill {name} is not complete: {counted(missing, 'work unit')} of "
            f"{len(standing.definition.plan.work_units):,} not read, {len(standing.failed):,} of "
            "them failed",
            f"`dil backfill resume {shlex.quote(job.path)} {name}` goes on; --partial publishes "
            "what is there, and the rest stays out for good.",
        )
    if stale and not is_partial:
        examples = ", ".join(stale[:_EXAMPLES])
        return StateError(
            f"{counted(len(stale), 'work unit')} of backfill {name} changed in the job since it "
            f"began ({examples}): runs read them anew or further, another backfill was published, "
            "or an operator let them be forgotten. Published, rows would be lost or doubled",
            "Begin a new backfill of the range, or leave these work units out with --partial.",
        )
    if _is_undecided(job, how):
        return StateError(
            "ms.publish.mode is append: it must be said whether the rows take the place of those "
            "that the same work units have, or come beside them as another version",
            "Give --replace or --append.",
        )
    return None
