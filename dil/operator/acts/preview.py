"""What an act would change, and what the next run would then do."""

from __future__ import annotations

from dataclasses import dataclass

from dil import planning
from dil.errors import DilError
from dil.model.job import Job, PublishMode
from dil.model.work_unit import Plan
from dil.operator.acts.desk import Desk
from dil.operator.acts.published import KEPT, NO_FILES, FileChange
from dil.run import admission
from dil.state.acts.amended_history import AmendedHistory
from dil.state.acts.operations import Proposal


@dataclass(frozen=True, slots=True)
class Preview:
    """A proposal with its consequences.

    ``plan`` is what a run would do after the act, None where ``no_plan`` says why it is not known.
    """

    job: Job
    proposal: Proposal
    files: FileChange = NO_FILES
    plan: Plan | None = None
    no_plan: str = ""

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing would change."""
        return self.proposal.is_empty and self.files.is_empty

    @property
    def is_undoable(self) -> bool:
        """Tell whether the chain would hold the act, so that undo can take it back."""
        return bool(self.proposal.changes) or not self.files.is_empty

    @property
    def doubled_rows(self) -> int:
        """Return how many published rows a run may append a second time."""
        is_append = self.job.publishing.mode is PublishMode.APPEND
        is_doubled = is_append and self.files.fate == KEPT and self.proposal.verb != "import"
        return sum(file.rows for file in self.files.touched) if is_doubled else 0


def preview_of(desk: Desk, proposal: Proposal, files: FileChange = NO_FILES) -> Preview:
    """Return a proposal with what the next run would do after it."""
    if proposal.is_empty and files.is_empty:
        return Preview(desk.job, proposal, no_plan="nothing changes")
    plan, no_plan = _next_plan(desk, proposal)
    return Preview(desk.job, proposal, files, plan, no_plan)


def _next_plan(desk: Desk, proposal: Proposal) -> tuple[Plan | None, str]:
    """Return what a run would do after a proposal, or why that cannot be told."""
    spec = desk.job.planning
    try:
        history = AmendedHistory(desk.store.history(), proposal)
        refusal = admission.shape_refusal(desk.job, desk.store.recorded_shape(), lambda: history)
        if refusal is not None:
            return None, f"it would be refused: {_on_one_line(refusal.message)}"
        if spec.units is None:
            return None, "the job's units come from its input or its source, which was not asked"
        return planning.plan(spec, now_ms=desk.now_ms, history=history), ""
    except DilError as error:
        return None, _on_one_line(error.message)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
