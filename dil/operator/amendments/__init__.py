"""Amendments of a job's state by an operator: proposed, previewed, applied under the job's lease.

``open_session`` takes the lease, a ``propose_...`` function returns a ``Preview``, and ``apply``
does it. Nothing changes before that.
"""

from dil.operator.amendments.files import FileChange, FileDecision
from dil.operator.amendments.importing import propose_import
from dil.operator.amendments.preview import Preview, apply
from dil.operator.amendments.proposing import (
    propose_forget,
    propose_prune,
    propose_rewind,
    propose_undo,
)
from dil.operator.session import OperatorSession, open_session
from dil.state.amendments.operations import Selection

__all__ = [
    "FileChange",
    "FileDecision",
    "OperatorSession",
    "Preview",
    "Selection",
    "apply",
    "open_session",
    "propose_forget",
    "propose_import",
    "propose_prune",
    "propose_rewind",
    "propose_undo",
]
