"""Previews an amendment: its changes, and the plan of the next run after it."""

from __future__ import annotations

from dataclasses import dataclass

from dil import planning
from dil.errors import DilError
from dil.model.job import Job, PublishMode
from dil.model.work_unit import Plan
from dil.operator.amendments.files import KEPT, NO_FILES, FileChange
from dil.operator.session import OperatorSession
from dil.publishing.leftovers import Leftovers
from dil.run import plan_checks
from dil.run.closed_labels import load_closed_labels
from dil.state.amendments.amended_history import AmendedHistory
from dil.state.amendments.operations import Proposal


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
        closed = load_closed_labels(session.job, session.store)
        if closed is not None:
            for window in proposal.reopens:
                closed = closed.with_reopened(window)
            for window in proposal.closes:
                closed = closed.with_closed(window)
        plan = planning.plan(spec, now_ms=session.now_ms, history=history, closed_labels=closed)
        return plan.at_once(), ""
    except DilError as error:
        return None, _on_one_line(error.message)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
