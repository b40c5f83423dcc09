"""Amendments of a job's state by an operator: proposed, previewed, applied under the job's lease.

``open_session`` takes the lease, a ``propose_...`` function returns a ``Preview``, and ``apply``
commits it. Nothing changes before ``apply``.
"""

from dil.operator.amendments.applying import apply
from dil.operator.amendments.closed_labels import (
    LabelListing,
    closed_among,
    list_known_labels,
    propose_close,
    propose_reopen,
)
from dil.operator.amendments.expiring import propose_expiry
from dil.operator.amendments.files import FileChange, FileDecision
from dil.operator.amendments.importing import propose_import
from dil.operator.amendments.preview import Preview
from dil.operator.amendments.proposing import (
    propose_forget,
    propose_prune,
    propose_rewind,
    propose_undo,
)
from dil.operator.amendments.relisting import propose_relist
from dil.operator.session import OperatorSession, open_session
from dil.state.amendments.operations import Selection

__all__ = [
    "FileChange",
    "FileDecision",
    "LabelListing",
    "OperatorSession",
    "Preview",
    "Selection",
    "apply",
    "closed_among",
    "list_known_labels",
    "open_session",
    "propose_close",
    "propose_expiry",
    "propose_forget",
    "propose_import",
    "propose_prune",
    "propose_relist",
    "propose_reopen",
    "propose_rewind",
    "propose_undo",
]
