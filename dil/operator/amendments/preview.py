"""A previewed amendment: what it would change, what the next run would do, and applying it."""

from __future__ import annotations

from dataclasses import dataclass

from dil import planning, publishing
from dil.errors import DilError
from dil.model.dataset import Commit, source_name
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import Plan
from dil.operator.amendments.files import KEPT, NO_FILES, FileChange
from dil.operator.session import OperatorSession
from dil.publishing import act_asides, withdrawal
from dil.run import plan_checks
from dil.state.amendments.amended_history import AmendedHistory
from dil.state.amendments.operations import Proposal


@dataclass(frozen=True, slots=True)
class Preview:
    """A proposal with its consequences.

    ``plan`` is what a run would do after the amendment; where it is None, ``no_plan`` says why.
    """

    job: Job
    proposal: Proposal
    files: FileChange = NO_FILES
    plan: Plan | None = None
    no_plan: str = ""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing would change."""
        return self.proposal.is_empty and self.files.is_empty

    @property
    def is_undoable(self) -> bool:
        """Return whether the chain would record the amendment, so that undo can take it back."""
        return bool(self.proposal.changes) or not self.files.is_empty

    @property
    def doubled_rows(self) -> int:
        """Return how many published rows a run may append a second time."""
        is_append = self.job.publishing.mode is PublishMode.APPEND
        is_doubled = is_append and self.files.fate == KEPT and self.proposal.verb != "import"
        return sum(file.rows for file in self.files.affected) if is_doubled else 0


def preview_of(
    session: OperatorSession, proposal: Proposal, files: FileChange = NO_FILES
) -> Preview:
    """Return a proposal with what the next run would do after it."""
    if proposal.is_empty and files.is_empty:
        return Preview(session.job, proposal, no_plan="nothing changes")
    plan, no_plan = _next_plan(session, proposal)
    return Preview(session.job, proposal, files, plan, no_plan)


def _next_plan(session: OperatorSession, proposal: Proposal) -> tuple[Plan | None, str]:
    """Return what a run would do after a proposal, or why that is not known."""
    spec = session.job.planning
    try:
        history = AmendedHistory(session.store.history(), proposal)
        recorded = session.store.recorded_shape()
        refusal = plan_checks.shape_refusal(session.job, recorded, lambda: history, session.now_ms)
        if refusal is not None:
            return None, f"it would be refused: {_on_one_line(refusal.message)}"
        if spec.units is None:
            return None, "the job's units come from its input or its source, which was not asked"
        return planning.plan(spec, now_ms=session.now_ms, history=history), ""
    except DilError as error:
        return None, _on_one_line(error.message)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def apply(session: OperatorSession, preview: Preview, reason: str = "") -> JsonObject | None:
    """Commit what a preview of this session shows, published as a run's commit would be.

    Args:
        session: The session that the preview was made in.
        preview: What is to be done.
        reason: Why, kept in the chain; the verb unless given.

    Returns:
        The last block of the amendment, None when it needs none.

    Raises:
        StateError: it is not decided what becomes of published files, or a file is not what was
            published.
        CommitConflictError: another writer changed the same work units or files meanwhile.
        LeaseLostError: the lease was taken over.
    """
    lease, job, files = session.require_lease(), session.job, preview.files
    if files.refusal is not None:
        raise files.refusal
    act_id, filesystem = lease.holder.run_id, session.filesystem()
    if files.withdrawn:
        withdrawal.require_recorded(session.store)
        withdrawal.withdraw(filesystem, job.publishing, act_id, files.withdrawn)
    now = session.clock()
    act = preview.proposal.act(reason or preview.proposal.verb, session.partition_ends())
    commit = Commit(
        run_id=act_id,
        config_digest=job.digest,
        source_name=source_name(job.name),
        moves=files.moves,
        removes=files.withdrawn,
        schema="",
        system_time=now,
        horizon=max(now, session.now_ms),
        act=act,
        quarantine=files.quarantine,
    )
    block = publishing.publish(session.store, lease, commit, job.publishing, filesystem)
    session.drop_page_logs(act)
    withdrawal.sweep(filesystem, files.moves)
    act_asides.sweep(filesystem, job.publishing, files.quarantine)
    return block
