"""Restore work units as they were, without claiming rows that are gone.

After an amendment, a work unit that is COMMITTED has the live files that its last success
published, or never had any. Where a rewind gives back a success whose files have left the dataset
since, they come back from the folders of the acts that withdrew them; if they are not there, the
work unit becomes PENDING and is read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishMode
from dil.model.work_unit import unit_hash
from dil.observe.progress import counted
from dil.operator.amendments.files import FileChange, FileDecision, LiveFiles, file_change
from dil.operator.session import OperatorSession
from dil.publishing import withdrawal
from dil.publishing.layout import unit_hash_in
from dil.state.amendments.last_act import FilesSince
from dil.state.amendments.operations import Proposal, RowChange, pending


def restore_rows(
    session: OperatorSession,
    proposal: Proposal,
    live: LiveFiles,
    since: FilesSince,
    decision: FileDecision,
) -> tuple[Proposal, FileChange]:
    """Return a proposal that claims no success without its rows, and what becomes of files.

    Args:
        session: The operator's session.
        proposal: Rows of the index as they were just after a block.
        live: The live files of its work units.
        since: What happened to files after that block.
        decision: What is to become of live files that came since.
    """
    files = _UnitFiles.of(session, live, since, decision)
    moves: list[Move] = []
    unread: list[RowChange] = []
    changes: list[RowChange] = []
    for change in proposal.changes:
        returning = files.returning(change)
        if returning is not None:
            changes.append(change)
            moves.extend(returning)
            continue
        again = replace(change, after=pending(change.after) if change.after else None)
        unread.append(again)
        if again.before != again.after:
            changes.append(again)
    hashes = {unit_hash(change.signature) for change in unread}
    affected = tuple(
        file for file in live.files if file.uri in since.came or unit_hash(file.signature) in hashes
    )
    file_moves = replace(file_change(session, affected, decision), moves=tuple(moves))
    proposal = replace(proposal, changes=tuple(changes), notes=(*proposal.notes, *live.notes))
    return _read_again(session, proposal, unread), file_moves


@dataclass(frozen=True, slots=True)
class _UnitFiles:
    """Files by the work unit's hash in their names: live ones, and URIs that are ``gone``.

    ``copies`` are what acts withdrew, by URI. ``came`` are URIs that came since.
    """

    live: Mapping[str, Sequence[PublishedFile]]
    gone: Mapping[str, Sequence[str]]
    copies: Mapping[str, Move]
    came: frozenset[str]
    decision: FileDecision
    is_append: bool

    @classmethod
    def of(
        cls, session: OperatorSession, live: LiveFiles, since: FilesSince, decision: FileDecision
    ) -> _UnitFiles:
        by_unit: dict[str, list[PublishedFile]] = defaultdict(list)
        for file in live.files:
            by_unit[unit_hash(file.signature)].append(file)
        left = since.left.difference(file.uri for file in live.files)
        gone: dict[str, list[str]] = defaultdict(list)
        for uri in sorted(left):
            gone[unit_hash_in(uri)].append(uri)
        spec = session.job.publishing
        return cls(
            live=by_unit,
            gone=gone,
            copies=withdrawal.copies(session.filesystem(), spec, left),
            came=since.came,
            decision=decision,
            is_append=spec.mode is PublishMode.APPEND,
        )

    def returning(self, change: RowChange) -> Sequence[Move] | None:
        """Return the moves that bring a success's rows back, none if they are there already.

        None where they cannot be brought back, so that the work unit must be read again.
        """
        if change.after is None or change.after.high is None:
            return ()
        name = unit_hash(change.signature)
        gone = self.gone.get(name, ())
        if not gone:
            return ()
        has_newer = any(file.uri in self.came for file in self.live.get(name, ()))
        newer_stay = has_newer and self.decision is not FileDecision.WITHDRAW
        if not newer_stay and all(uri in self.copies for uri in gone):
            return [self.copies[uri] for uri in gone]
        # A later run read rows in the place of those that are gone.
        is_replaced = newer_stay or not (has_newer or self.is_append)
        return () if is_replaced and _reaches(change) else None


def _reaches(change: RowChange) -> bool:
    """Return whether a work unit is read now as far as the amendment would have it."""
    before, after = change.before, change.after
    if before is None or before.high is None or after is None or after.high is None:
        return False
    return before.high >= after.high


def _read_again(
    session: OperatorSession, proposal: Proposal, unread: Sequence[RowChange]
) -> Proposal:
    """Note which work units must be read again, and keep the dataset's watermark before them."""
    if not unread:
        return proposal
    note = (
        f"PENDING, to be read again: {counted(len(unread), 'work unit')} whose files left the "
        "dataset since and are not all kept as copies"
    )
    reached = session.watermark()
    wanted = proposal.watermark if proposal.sets_watermark else reached
    if wanted is not None:
        wanted = min(wanted, *(change.after.low for change in unread if change.after))
    return replace(
        proposal,
        notes=(*proposal.notes, note),
        watermark=wanted,
        sets_watermark=wanted != reached,
    )
