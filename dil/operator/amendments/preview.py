"""Previews an amendment: its changes, and the next run's plan; and applies the amendment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dil import planning, publishing
from dil.errors import DilError
from dil.model.books import BookKeeping
from dil.model.dataset import Commit, Move, PublishedFile, source_name
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import Plan
from dil.operator.amendments.files import KEPT, NO_FILES, FileChange
from dil.operator.amendments.remainders import staged_remainders, whole_files
from dil.operator.session import OperatorSession
from dil.publishing import leftovers, set_aside, withdrawal
from dil.publishing.leftovers import Leftovers
from dil.run import event_time, plan_checks
from dil.run.books import kept_books
from dil.run.books_closing import settle_registry
from dil.state.amendments.amended_history import AmendedHistory
from dil.state.amendments.operations import Proposal

# Late rows of other actions stay visible, so that these are judged again as they were before.
_LOSING = frozenset({"drop", "fail"})


@dataclass(frozen=True, slots=True)
class Preview:
    """A proposal with its consequences.

    ``leftovers`` would be deleted for good. ``plan`` is the plan of a run after the amendment. If
    ``plan`` is None, ``no_plan`` says why.
    """

    job: Job
    proposal: Proposal
    files: FileChange = NO_FILES
    plan: Plan | None = None
    no_plan: str = ""
    leftovers: tuple[Leftovers, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing would change."""
        return self.has_no_act and not self.leftovers

    @property
    def has_no_act(self) -> bool:
        """Return whether neither the records nor the files of the dataset would change."""
        return self.proposal.is_empty and self.files.is_empty

    @property
    def is_undoable(self) -> bool:
        """Return whether the chain would record the amendment, so that undo can take it back."""
        files = self.files
        has_files = not (files.is_empty or files.only_records or files.is_final)
        proposal = self.proposal
        return bool(proposal.changes or proposal.closes or proposal.reopens) or has_files

    @property
    def doubled_rows(self) -> int:
        """Return how many published rows a run may append a second time."""
        is_append = self.job.publishing.mode is PublishMode.APPEND
        is_doubled = is_append and self.files.fate == KEPT and self.proposal.verb != "import"
        return sum(file.rows for file in self.files.affected) if is_doubled else 0


def preview_of(
    session: OperatorSession, proposal: Proposal, files: FileChange = NO_FILES
) -> Preview:
    """Return a proposal with the plan of the next run after it."""
    if proposal.is_empty and files.is_empty:
        return Preview(session.job, proposal, no_plan="nothing changes")
    plan, no_plan = _next_plan(session, proposal)
    return Preview(session.job, proposal, files, plan, no_plan)


def _next_plan(session: OperatorSession, proposal: Proposal) -> tuple[Plan | None, str]:
    """Return the plan of a run after a proposal, or the reason why it is unknown."""
    spec = session.job.planning
    if session.job.query is not None:
        return None, "the job takes the new rows of its inputs, as `dil plan JOB.conf` shows"
    try:
        history = AmendedHistory(session.store.history(), proposal, session.store.unit_entries)
        recorded = session.store.recorded_shape()
        entries = proposal.amended(session.store.unit_entries())
        refusal = plan_checks.shape_refusal(session.job, recorded, lambda: entries, session.now_ms)
        if refusal is not None:
            return None, f"the run would be refused: {_on_one_line(refusal.message)}"
        if spec.units is None:
            return None, "the job's units come from its input or its source, which was not asked"
        books = kept_books(session.job, session.store)
        if books is not None:
            for window in proposal.reopens:
                books = books.with_reopened(window)
            for window in proposal.closes:
                books = books.with_closed(window)
        return planning.plan(spec, now_ms=session.now_ms, history=history, books=books), ""
    except DilError as error:
        return None, _on_one_line(error.message)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def require_applicable(session: OperatorSession, preview: Preview) -> None:
    """Raise the errors that ``apply`` would raise for files that are to be deleted for good.

    Raises:
        StateError: the state of the chain or the dataset allows no deletion.
        WriteError: a file does not belong to the job.
        CommitConflictError: another program removed a file.
    """
    if not preview.files.is_final:
        return
    withdrawal.require_recorded(session.store)
    commit = _commit_of(session, preview, session.act_id or preview.proposal.verb, "")
    place = (session.job.publishing, session.filesystem())
    publishing.refuse_unpublishable(session.job.name, session.store, commit, *place)


def _commit_of(session: OperatorSession, preview: Preview, act_id: str, reason: str) -> Commit:
    now, proposal, events = session.clock(), preview.proposal, session.job.events
    books = None
    if proposal.closes or proposal.reopens:
        books = BookKeeping(
            reopens=proposal.reopens,
            closes=proposal.closes,
            forced=True,
            marks=publishing.keeps_registry(session.job),
            reason=reason or proposal.verb,
        )
    return Commit(
        run_id=act_id,
        config_digest=session.job.digest,
        source_name=source_name(session.job.name),
        moves=preview.files.moves,
        removes=preview.files.withdrawn,
        schema="",
        system_time=now,
        horizon=max(now, session.now_ms),
        act=proposal.act(reason or proposal.verb, session.partition_ends()),
        quarantine=preview.files.quarantine,
        late_dir=set_aside.late_dir_of(
            session.filesystem(), session.job.publishing, preview.files.quarantine
        ),
        checkpoints=event_time.checkpoints_with_forgotten(session.store, proposal.forgotten)
        if events is not None and events.late_action in _LOSING
        else {},
        books=books,
    )


def apply(session: OperatorSession, preview: Preview, reason: str = "") -> JsonObject | None:
    """Commit the changes of a preview of this session, and publish them as a run does.

    Args:
        session: The session that the preview was made in.
        preview: The previewed amendment.
        reason: The reason that the chain keeps, by default the verb.

    Returns:
        The last block of the amendment; None if the amendment adds no block.

    Raises:
        StateError: the operator has not decided about published files, or a file differs from the
            published one.
        CommitConflictError: another writer changed the same work units or files meanwhile.
        LeaseLostError: the lease was taken over.
    """
    lease, job, files = session.require_lease(), session.job, preview.files
    if preview.has_no_act:
        leftovers.delete(session.filesystem(), job.publishing, preview.leftovers)
        return None
    if files.refusal is not None:
        raise files.refusal
    act_id, filesystem = lease.holder.run_id, session.filesystem()
    withdrawn: Sequence[PublishedFile] = files.withdrawn
    rests: Sequence[Move] = ()
    if files.withdrawn and not files.only_records:
        withdrawal.require_recorded(session.store)
        withdrawn = whole_files(session, files.withdrawn, is_final=files.is_final)
        if not files.is_final:
            withdrawal.withdraw(filesystem, job.publishing, act_id, withdrawn)
        rests = staged_remainders(session, act_id, files.withdrawn, withdrawn)
    commit = _commit_of(session, preview, act_id, reason)
    commit = replace(commit, moves=(*files.moves, *rests), removes=tuple(withdrawn))
    place = (commit, job.publishing, filesystem)
    if files.only_records:
        sequence = publishing.append_block(session.store, lease, *place)
        block = None if sequence is None else session.store.head()
    else:
        block = publishing.publish(session.store, lease, *place)
    if commit.books is not None:
        settle_registry(job, session.store, lease, filesystem)
    if commit.act is not None:
        session.drop_page_logs(commit.act)
    for move in rests:
        filesystem.delete_empty_folder(move.source.rpartition("/")[0])
    if not files.only_records:
        withdrawal.sweep(filesystem, files.moves)
    set_aside.sweep(filesystem, job.publishing, files.quarantine)
    leftovers.delete(filesystem, job.publishing, preview.leftovers)
    return block
