"""Deterministic rows for the test server: generated, or read from a JSON-lines file."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

START_MS = 1_577_836_800_000  # 2020-01-01T00:00:00Z
DAY_MS = 86_400_000
STATES = ("new", "paid", "shipped", "returned")


def generated_row(unit: str, number: int, time_ms: int) -> dict[str, object]:
    """Return row ``number`` of a unit, about 255 bytes of JSON; equal arguments give equal rows."""
    return {
        "id": number,
        "unit": unit,
        "updated_ms": time_ms,
        "state": STATES[number % len(STATES)],
        "amount": (number * 37 % 100_000) / 100,
        "active": number % 3 != 0,
        "customer": {
            "name": f"Customer {number % 977}",
            "email": f"c{number % 977}@example.com",
            "address": {"city": f"City {number % 41}", "zip": f"{number % 100_000:05d}"},
        },
        "tags": [f"t{number % 7}", f"t{number % 11}"],
        "note": None if number % 5 == 0 else f"note number {number}",
    }


def late_rows(time_ms: int, count: int = 5) -> list[dict[str, object]]:
    """Return rows of two units from a time on, with ids that no other rows have."""
    return [
        generated_row(unit, 100_000 + number, time_ms + number * 1000)
        for unit in ("a", "b")
        for number in range(count)
    ]


@dataclass(slots=True)
class UnitRows:
    """Rows of one unit in time order, as parallel lists of times and encoded rows."""

    times: list[int] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)

    def window(self, since: int | None, until: int | None) -> tuple[int, int]:
        """Return the index range of rows with ``since <= time < until``."""
        low = 0 if since is None else bisect_left(self.times, since)
        high = len(self.times) if until is None else bisect_left(self.times, until)
        return low, max(low, high)


class Dataset:
    """Rows by unit. A row belongs to its ``unit`` field and is ordered by ``updated_ms``."""

    def __init__(self, rows: Iterable[dict[str, object]] = ()) -> None:
        self.units: dict[str, UnitRows] = {}
        self.extend(rows)

    @classmethod
    def generate(
        cls,
        rows: int,
        *,
        units: Sequence[str] = ("u1",),
        start_ms: int = START_MS,
        step_ms: int = 60_000,
    ) -> Dataset:
        """Return ``rows`` rows for each unit, one row every ``step_ms``."""
        dataset = cls()
        for unit in units:
            times = [start_ms + number * step_ms for number in range(rows)]
            dataset.units[unit] = UnitRows(
                times, [encode(generated_row(unit, n, time)) for n, time in enumerate(times)]
            )
        return dataset

    @classmethod
    def from_lines(cls, path: Path) -> Dataset:
        """Return the rows of a JSON-lines file; blank lines are skipped."""
        with path.open(encoding="utf-8") as lines:
            return cls(json.loads(line) for line in lines if line.strip())

    def extend(self, rows: Iterable[dict[str, object]]) -> None:
        """Add rows; a unit's rows stay in time order; of equal times, later additions come last."""
        touched: dict[str, list[tuple[int, bytes]]] = {}
        for row in rows:
            unit = str(row.get("unit", ""))
            touched.setdefault(unit, []).append((_time_of(row), encode(row)))
        for unit, added in touched.items():
            old = self.units.get(unit, UnitRows())
            merged = [*zip(old.times, old.encoded, strict=True), *added]
            merged.sort(key=lambda pair: pair[0])
            self.units[unit] = UnitRows([t for t, _ in merged], [row for _, row in merged])

    def ids(self, until_ms: int, since_ms: int = START_MS) -> Counter[tuple[str, int]]:
        """Return unit and id of each row with ``since_ms <= time < until_ms``."""
        found: Counter[tuple[str, int]] = Counter()
        for unit, held in self.units.items():
            low, high = held.window(since_ms, until_ms)
            found.update((unit, json.loads(line)["id"]) for line in held.encoded[low:high])
        return found

    def of(self, unit: str | None) -> UnitRows:
        """Return one unit's rows, or all rows if ``unit`` is None; in time order."""
        if unit is not None:
            return self.units.get(unit, UnitRows())
        if len(self.units) == 1:
            return next(iter(self.units.values()))
        merged = [
            pair
            for rows in self.units.values()
            for pair in zip(rows.times, rows.encoded, strict=True)
        ]
        merged.sort(key=lambda pair: pair[0])
        return UnitRows([time for time, _ in merged], [row for _, row in merged])


def encode(row: object) -> bytes:
    """Return compact JSON, UTF-8."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def _time_of(row: dict[str, object]) -> int:
    value = row.get("updated_ms", 0)
    return value if isinstance(value, int) else 0
