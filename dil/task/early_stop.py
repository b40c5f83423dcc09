"""Decides by the reports of finished work units whether another work unit should begin."""

from __future__ import annotations

from collections.abc import Sequence

from dil.errors import AuthenticationError, QuotaError, TransientSourceError
from dil.model.task import Failure, TaskReport

_REFUSALS = frozenset({AuthenticationError.code, TransientSourceError.code})
_EVIDENCE = 3


def quota_spent(why: str, fix: str = "") -> Failure:
    """Return the failure of a run whose quota was spent before its last work unit began."""
    return Failure(QuotaError.code, f"no further work unit was begun: {why}", fix=fix)


class EarlyStop:
    """Looks at each report once, as reports come in.

    A spent quota ends the run at once: the source gives nothing more before the quota is renewed. A
    source that refuses every work unit ends the run early (rule P37): if all of the first reports
    failed, either all for credentials, or all because the source was unreachable.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._quota: Failure | None = None
        self._first: Failure | None = None
        self._has_hope = False

    def look(self, reports: Sequence[TaskReport]) -> Failure | None:
        """Return why the remaining work units would fail, too; None while there is hope.

        ``reports`` begin with the reports of the last look; new ones follow.
        """
        for report in reports[self._seen :]:
            self._seen += 1
            failure = report.failure
            if failure is None:
                self._has_hope = True
                continue
            if failure.code == QuotaError.code:
                self._quota = self._quota or failure
            self._first = self._first or failure
            if failure.code not in _REFUSALS or failure.code != self._first.code:
                self._has_hope = True
        if self._quota is not None:
            return quota_spent(self._quota.error, self._quota.fix)
        first = self._first
        if self._has_hope or first is None or self._seen < _EVIDENCE:
            return None
        return Failure(
            first.code, f"the source refused every work unit so far; last: {first.error}"
        )
