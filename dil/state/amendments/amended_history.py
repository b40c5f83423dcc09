"""The history that planning would find after an operator's act that is only proposed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dil.model.dataset import UnitEntry
from dil.model.history import Coverage, History, UnitRecord
from dil.state.amendments.operations import Proposal
from dil.state.blocks.source_state import PENDING
from dil.state.work_units.history import record_of
from dil.state.work_units.signatures import parts_of_signature

_ALWAYS = (-(2**62), 2**62)


class AmendedHistory(History):
    """A history in which the rows of a proposal replace the recorded rows."""

    def __init__(
        self, base: History, proposal: Proposal, entries: Callable[[], Iterable[UnitEntry]]
    ) -> None:
        """Keep the history before the proposal; ``entries`` returns all its rows, if needed."""
        self._base = base
        self._proposal = proposal
        self._entries = entries
        self._is_empty = not proposal.keeps_records and all(
            each.after is None or each.after.status == PENDING for each in proposal.changes
        )
        self._changed: dict[str, dict[str, UnitRecord | None]] = {}
        for change in proposal.changes:
            parts = parts_of_signature(change.signature)
            if parts is not None:
                unit = self._changed.setdefault(parts.unit_key, {})
                unit[change.signature] = _record(change.after)

    def is_empty(self) -> bool:
        """Return whether no work unit would be recorded."""
        return self._is_empty

    def has_succeeded(self) -> bool:
        """Return whether any work unit would have succeeded once."""
        records = map(_record, self._proposal.amended(self._entries()))
        return any(each is not None and each.succeeded_once for each in records)

    def lowest(self) -> int | None:
        """Return the earliest partition start of any unit, epoch ms UTC."""
        return min((row.low for row in self._proposal.amended(self._entries())), default=None)

    def coverage(self, unit_key: str) -> Coverage | None:
        """Return the unit's coverage.

        The coverage of a changed unit is empty, so that planning reads the unit's records.
        """
        if unit_key not in self._changed:
            return self._base.coverage(unit_key)
        found = self.records(unit_key, *_ALWAYS).values()
        highs = [record.high for record in found if record.high is not None]
        return Coverage(0, 0, max(highs, default=0), len(found))

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        """Return, by signature, the unit's records whose partition start is in ``[low, high)``."""
        found = dict(self._base.records(unit_key, low, high))
        for signature, record in self._changed.get(unit_key, {}).items():
            found.pop(signature, None)
            if record is not None and low <= record.low < high:
                found[signature] = record
        return found

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        """Return, by signature, the unit's records whose last attempt failed."""
        found = dict(self._base.open_records(unit_key))
        for signature, record in self._changed.get(unit_key, {}).items():
            found.pop(signature, None)
            if record is not None and record.failed:
                found[signature] = record
        return found


def _record(entry: UnitEntry | None) -> UnitRecord | None:
    """Return the record that planning reads from a row; None for a pending row, or for no row."""
    if entry is None or entry.status == PENDING:
        return None
    return record_of(
        entry.signature, entry.low, entry.high, entry.status, entry.attempts, entry.expected_high
    )
