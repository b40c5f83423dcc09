"""A history given as a plain mapping, for the pure planner."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dil.model.history import Coverage, UnitRecord

_START = re.compile(r"\.(-?[0-9]+), watermark\.")


class BareHistory:
    """High watermarks in epoch ms UTC, or whole records, by raw signature (B5.4).

    A high that equals its partition's start means that the work unit never succeeded. A record
    tells in addition that the last attempt failed.
    """

    def __init__(self, highs: Mapping[str, int | UnitRecord]) -> None:
        self._by_unit: dict[str, dict[str, UnitRecord]] = {}
        for signature, value in highs.items():
            # A name or a unit may hold text that looks like the middle of a signature. Each way to
            # read it is kept: the planner compares whole signatures.
            for middle in _START.finditer(signature):
                start = int(middle[1])
                key = signature[middle.end() : -1]
                record = value if isinstance(value, UnitRecord) else None
                self._by_unit.setdefault(key, {})[signature] = record or UnitRecord(
                    signature, start, value if isinstance(value, int) else None
                )
        self._is_empty = not highs

    def is_empty(self) -> bool:
        """Tell whether the mapping is empty."""
        return self._is_empty

    def coverage(self, unit_key: str) -> Coverage | None:
        """Return a row that covers nothing, so that the unit's records are looked up."""
        records = self._by_unit.get(unit_key)
        if records is None:
            return None
        highs = [record.high for record in records.values() if record.high is not None]
        return Coverage(0, 0, max(highs, default=0), len(records))

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        """Return the unit's records by signature whose partition start lies in ``[low, high)``."""
        found = self._by_unit.get(unit_key, {})
        return {
            signature: record for signature, record in found.items() if low <= record.low < high
        }

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        """Return the unit's records by signature that failed last or never succeeded."""
        found = self._by_unit.get(unit_key, {})
        return {
            signature: record
            for signature, record in found.items()
            if record.failed or record.high is None or record.high == record.low
        }
