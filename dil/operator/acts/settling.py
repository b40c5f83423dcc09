"""No act leaves a work unit committed without its rows: the one place that sees to it.

After an act, a work unit that is COMMITTED has the live files that its last success published, or
never had any. Where an act gives back a success whose files left the dataset since, they come
back from the folders of the acts that withdrew them, else the work unit becomes PENDING.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishMode
from dil.model.work_unit import unit_hash
from dil.observe.progress import counted
from dil.operator.acts.desk import Desk
from dil.operator.acts.published import FileChange, FileDecision, LiveFiles, file_change
from dil.publishing import withdrawal
from dil.state.acts.last_act import FilesSince
from dil.state.acts.operations import Proposal, RowChange, pending


def settled(
    desk: Desk, proposal: Proposal, live: LiveFiles, since: FilesSince, decision: FileDecision
) -> tuple[Proposal, FileChange]:
    """Return a proposal that claims no success without its rows, and what becomes of files.

    Args:
        desk: The job's desk.
        proposal: Rows as they were just after a block.
        live: The live files of its work units.
        since: What happened to files behind that block.
        decision: What is to become of live files that came since.
    """
    ground = _ground(desk, live, since, decision)
    moves: list[Move] = []
    unread: list[RowChange] = []
    changes: list[RowChange] = []
    for change in proposal.changes:
        verdict = ground.verdict(change)
        if verdict is None:
            again = replace(change, after=pending(change.after) if change.after else None)
            unread.append(again)
            if again.before != again.after:
                changes.append(again)
            continue
        changes.append(change)
        moves.extend(verdict)
    again_hashes = {unit_hash(change.signature) for change in unread}
    touched = tuple(
        file
        for file in live.files
        if file.uri in since.came or unit_hash(file.signature) in again_hashes
    )
    files = replace(file_change(desk, touched, decision), moves=tuple(moves))
    proposal = replace(proposal, changes=tuple(changes), notes=(*proposal.notes, *live.notes))
    return _with_unread(desk, proposal, unread), files


@dataclass(frozen=True, slots=True)
class _Ground:
    """Files by the hash that work units have in file names; ``lost`` are URIs that left."""

    live: Mapping[str, Sequence[PublishedFile]]
    lost: Mapping[str, Sequence[str]]
    copies: Mapping[str, Move]
    came: frozenset[str]
    decision: FileDecision
    is_append: bool

    def verdict(self, change: RowChange) -> Sequence[Move] | None:
        """Return what brings a work unit's rows back, nothing if they are there; None if lost."""
        if change.after is None or change.after.high is None:
            return ()
        name = unit_hash(change.signature)
        lost = self.lost.get(name, ())
        if not lost:
            return ()
        newer = any(file.uri in self.came for file in self.live.get(name, ()))
        stays = newer and self.decision is not FileDecision.WITHDRAW
        if not stays and all(uri in self.copies for uri in lost):
            return [self.copies[uri] for uri in lost]
        # Rows that a later run read in the place of the lost ones.
        is_replaced = stays or not (newer or self.is_append)
        return () if is_replaced and _reaches(change) else None


def _reaches(change: RowChange) -> bool:
    """Tell whether a work unit is read now as far as the act would have it."""
    before, after = change.before, change.after
    if before is None or before.high is None or after is None or after.high is None:
        return False
    return before.high >= after.high


def _ground(desk: Desk, live: LiveFiles, since: FilesSince, decision: FileDecision) -> _Ground:
    by_unit: dict[str, list[PublishedFile]] = defaultdict(list)
    for file in live.files:
        by_unit[unit_hash(file.signature)].append(file)
    lost: dict[str, list[str]] = defaultdict(list)
    gone = since.left.difference(file.uri for file in live.files)
    for uri in sorted(gone):
        lost[_hash_in(uri)].append(uri)
    job = desk.job.publishing
    return _Ground(
        live=by_unit,
        lost=lost,
        copies=withdrawal.copies(desk.filesystem(), job, gone),
        came=since.came,
        decision=decision,
        is_append=job.mode is PublishMode.APPEND,
    )


def _hash_in(uri: str) -> str:
    """Return the hash of the work unit in the name of a published file (spec README 28)."""
    return uri.rpartition("/")[2].rpartition("-")[0].rpartition("-")[2]


def _with_unread(desk: Desk, proposal: Proposal, unread: Sequence[RowChange]) -> Proposal:
    """Say which work units must be read again, and hold the dataset's watermark before them."""
    if not unread:
        return proposal
    note = (
        f"PENDING, to be read again: {counted(len(unread), 'work unit')} whose files left the "
        "dataset since and are not all kept as copies"
    )
    first = min(change.after.low for change in unread if change.after)
    reached = desk.watermark()
    wanted = proposal.watermark if proposal.sets_watermark else reached
    if wanted is not None:
        wanted = min(wanted, first)
    return replace(
        proposal,
        notes=(*proposal.notes, note),
        watermark=wanted,
        sets_watermark=wanted != reached,
    )
