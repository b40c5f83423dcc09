"""The settings of sending: refused rows, rows in batches, an audit copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EgressSpec:
    """How payload rows are sent (rule G38).

    ``keeps_refused`` puts a row aside that the receiver refuses for good, at most ``max_refused``
    of a work unit (None is no limit). ``sends_again`` sends even where an earlier attempt may have
    sent. ``batch_rows`` rows go into one request, as an array in ``batch_field``; with an empty
    one each row is a request of its own.
    """

    keeps_refused: bool = False
    max_refused: int | None = None
    sends_again: bool = False
    batch_rows: int = 1
    batch_field: str = ""


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """Whether and where every request is recorded (docs/egress.md).

    ``directory`` is absolute, empty for ``_audit`` in the dataset's folder. With ``is_required``
    nothing is sent that cannot be recorded.
    """

    enabled: bool = False
    directory: str = ""
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """How many payload rows were answered with a status that is no success.

    ``is_kept`` says that the receiver refused them and that they were put aside; else the job
    takes the status for a warning.
    """

    status: int
    rows: int
    is_kept: bool
