"""The settings of sending: refused rows, rows in batches, an audit copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EgressSpec:
    """How payload rows are sent (rule G38).

    If ``keeps_refused`` is true, rows that the receiver refuses for good are put aside, at most
    ``max_refused`` rows of a work unit (None is no limit). If ``sends_again`` is true, rows are
    sent even if an earlier attempt may have sent them. ``batch_rows`` rows go into one request, as
    an array in ``batch_field``; if ``batch_field`` is empty, each row is a request of its own.
    """

    keeps_refused: bool = False
    max_refused: int | None = None
    sends_again: bool = False
    batch_rows: int = 1
    batch_field: str = ""


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """The settings of the audit, which records every request (docs/egress.md).

    ``directory`` is absolute, empty for ``_audit`` in the dataset's folder. If ``is_required`` is
    true, a request that cannot be recorded is not sent.
    """

    enabled: bool = False
    directory: str = ""
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """The number of payload rows whose response had one status other than success.

    If ``is_kept`` is true, the receiver refused the rows, and they were put aside. If it is false,
    the job counts the status as a warning.
    """

    status: int
    rows: int
    is_kept: bool
