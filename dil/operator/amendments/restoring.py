"""Restores work units without claiming rows that are gone.

After an amendment, a work unit that is COMMITTED has the live files that its last success
published, if it published any. If a rewind restores a success whose files were removed since, the
files come back from the folders of the acts that withdrew them. If the files are not there, the
work unit becomes PENDING and is read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishMode
from dil.model.work_unit import unit_hash
from dil.observe.progress import counted
from dil.operator.amendments.files import FileChange, FileDecision, LiveFiles, file_change
from dil.operator.session import OperatorSession
from dil.publishing import withdrawal
from dil.publishing.layout import SHARED, unit_hash_in
from dil.state.amendments.last_act import FilesSince
from dil.state.amendments.operations import Proposal, RowChange, pending


def restore_rows(
    session: OperatorSession,
    proposal: Proposal,
    live: LiveFiles,
    since: FilesSince,
    decision: FileDecision,
) -> tuple[Proposal, FileChange]:
    """Return a proposal in which each success has its rows, and the change of files.

    Args:
        session: The operator's session.
        proposal: Rows of the index as they were just after a block.
        live: The live files of the proposal's work units.
        since: The changes of files after that block.
        decision: The decision about live files that were added since.
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
    affected = tuple(_affected(live.files, since.came, hashes))
    file_moves = replace(file_change(session, affected, decision), moves=tuple(moves))
    proposal = replace(proposal, changes=tuple(changes), notes=(*proposal.notes, *live.notes))
    return _read_again(session, proposal, unread), file_moves


def _affected(
    files: Iterable[PublishedFile], came: Collection[str], hashes: Collection[str]
) -> Iterator[PublishedFile]:
    """Yield the files added since; of other files, only the rows of work units to read again."""
    for file in files:
        again = {each for each in file.signatures if unit_hash(each) in hashes}
        if file.uri in came:
            yield file
        elif again:
            yield file.narrowed(again)


@dataclass(frozen=True, slots=True)
class _UnitFiles:
    """Files by the work unit's hash in their names: live ones, and URIs that are ``gone``.

    ``shared`` are the work units with rows in lost files of several work units, None if not all are
    known. ``copies`` are files that acts withdrew, by URI. ``came`` are the URIs that were added
    since.
    """

    live: Mapping[str, Sequence[PublishedFile]]
    gone: Mapping[str, Sequence[str]]
    shared: frozenset[str] | None
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
            for signature in file.signatures:
                by_unit[unit_hash(signature)].append(file)
        left = since.left.difference(file.uri for file in live.files)
        spec = session.job.publishing
        copies = withdrawal.copies(session.filesystem, spec, left)
        gone: dict[str, list[str]] = defaultdict(list)
        shared: set[str] = set()
        is_known = True
        for uri in sorted(left):
            word = unit_hash_in(uri)
            if word != SHARED:
                gone[word].append(uri)
            elif uri in copies:
                shared.update(map(unit_hash, copies[uri].target.signatures))
            else:
                is_known = False
        return cls(
            live=by_unit,
            gone=gone,
            shared=frozenset(shared) if is_known else None,
            copies=copies,
            came=since.came,
            decision=decision,
            is_append=spec.mode is PublishMode.APPEND,
        )

    def returning(self, change: RowChange) -> Sequence[Move] | None:
        """Return the moves that bring the rows of a success back; empty if they are live already.

        None if they cannot be brought back, so that the work unit must be read again.
        """
        if change.after is None or change.after.high is None:
            return ()
        name = unit_hash(change.signature)
        gone = self.gone.get(name, ())
        # Rows in a file shared with other work units do not come back as a file.
        was_shared = self.shared is None or name in self.shared
        if not gone and not was_shared:
            return ()
        has_newer = any(file.uri in self.came for file in self.live.get(name, ()))
        newer_stay = has_newer and self.decision is not FileDecision.WITHDRAW
        is_kept = not was_shared and all(uri in self.copies for uri in gone)
        if not newer_stay and is_kept:
            return [self.copies[uri] for uri in gone]
        # A later run read new rows in place of the removed ones.
        is_replaced = newer_stay or not (has_newer or self.is_append)
        # It reached the end that the amendment records.
        before = change.before
        reaches = (
            before is not None and before.high is not None and before.high >= change.after.high
        )
        return () if is_replaced and reaches else None


def _read_again(
    session: OperatorSession, proposal: Proposal, unread: Sequence[RowChange]
) -> Proposal:
    """Note which work units must be read again, and keep the dataset's watermark before them."""
    if not unread:
        return proposal
    note = (
        f"PENDING, to be read again: {counted(len(unread), 'work unit')} whose files have left the "
        "dataset, and of which not all copies exist"
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
