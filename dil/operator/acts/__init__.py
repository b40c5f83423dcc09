"""What operators do to the state of a job: proposed, previewed, and performed under its lease.

An act begins with ``open_desk``, becomes a ``Preview`` by one of the ``propose_...`` functions,
and is done by ``perform``. Nothing changes before that.
"""

from dil.operator.acts.desk import Desk, open_desk
from dil.operator.acts.importing import propose_import
from dil.operator.acts.performing import perform
from dil.operator.acts.preview import Preview
from dil.operator.acts.proposing import propose_forget, propose_prune, propose_rewind, propose_undo
from dil.operator.acts.published import FileChange, FileDecision
from dil.state.acts.operations import Selection

__all__ = [
    "Desk",
    "FileChange",
    "FileDecision",
    "Preview",
    "Selection",
    "open_desk",
    "perform",
    "propose_forget",
    "propose_import",
    "propose_prune",
    "propose_rewind",
    "propose_undo",
]
