"""Event-time watermarks row by row in plain Python: slow, and near to the words of the rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

WEEK_MS = 7 * 86_400_000
FARTHEST = 2**62


@dataclass
class ReferencePartition:
    rows: int = 0
    largest: int | None = None
    watermark: int | None = None
    last_seen: int = 0
    delays: list[int] = field(default_factory=list)


@dataclass
class Reference:
    """Numbers are those of the properties; times and lengths in ms."""

    strategy: str
    delay: int | dict[str, int] = 0
    idle: int | None = None
    policy: str = "min"
    order: str = "batch"
    warmup: str = "hold"
    nulls: str = "keep"
    future: int = 86_400_000
    window: int = 5000
    quantile: Fraction = Fraction(95, 100)
    low: int = 50
    high: int = WEEK_MS
    margins: Sequence[tuple[int, int]] = (
        (250, WEEK_MS),
        (500, 30_000),
        (750, 10_000),
        (1000, 1000),
    )
    boundary: str = "exclusive"
    lag: int = 0
    watermark: int | None = None
    previous: int | None = None
    partitions: dict[str, ReferencePartition] = field(default_factory=dict)

    def commit(
        self, times: Sequence[int | None], names: Sequence[str], now: int
    ) -> tuple[list[bool], int | None, int | None, list[int]]:
        effective = self.previous if self.lag else self.watermark
        late: list[bool] = []
        refused: list[int] = []
        rows: list[tuple[str, int]] = []
        for number, (written, name) in enumerate(zip(times, names, strict=True)):
            time = now if written is None and self.nulls == "ingest_time" else written
            is_far = time is not None and (time > now + self.future or abs(time) > FARTHEST)
            if is_far or (time is None and self.nulls == "reject"):
                refused.append(number)
                late.append(False)
            elif time is None:
                late.append(False)
            else:
                late.append(self._is_late(time, effective))
                rows.append((name, time))
        self._take(rows, now)
        self.previous = self.watermark
        asked = self._asked(now)
        if asked is not None:
            self.watermark = asked if self.watermark is None else max(self.watermark, asked)
        return late, effective, self.watermark, refused

    def _is_late(self, time: int, effective: int | None) -> bool:
        if effective is None:
            return False
        return time <= effective if self.boundary == "inclusive" else time < effective

    def _take(self, rows: Sequence[tuple[str, int]], now: int) -> None:
        before = {name: each.largest for name, each in self.partitions.items()}
        highest: dict[str, int] = {}
        for name, time in rows:
            kept = self.partitions.setdefault(name, ReferencePartition())
            kept.rows += 1
            kept.last_seen = now
            kept.largest = time if kept.largest is None else max(kept.largest, time)
            highest[name] = max(highest.get(name, time), time)
            ahead = kept.largest if self.order == "arrival" else before.get(name)
            kept.delays.append(0 if ahead is None else min(max(0, ahead - time), WEEK_MS))
            del kept.delays[: -self.window]
        for name, most in highest.items():
            kept = self.partitions[name]
            candidate = self._candidate(name, kept, most)
            old = kept.watermark
            kept.watermark = candidate if old is None else max(old, candidate)

    def _candidate(self, name: str, kept: ReferencePartition, most: int) -> int:
        assert kept.largest is not None
        delay = self.delay[name] if isinstance(self.delay, dict) else self.delay
        match self.strategy:
            case "fixed_delay":
                return most - delay
            case "bounded":
                return kept.largest - delay
            case "source_180ms":
                return kept.largest - 180
        rank = math.ceil(len(kept.delays) * self.quantile)
        quantile = sorted(kept.delays)[rank - 1]
        margin = next((extra for up_to, extra in self.margins if kept.rows <= up_to), 0)
        return kept.largest - min(max(quantile + margin, self.low), self.high)

    def _asked(self, now: int) -> int | None:
        everyone = list(self.partitions.values())
        known = self.delay if isinstance(self.delay, dict) else {}
        if self.strategy == "fixed_delay" and self.policy == "max":
            return max(
                (each.watermark for each in everyone if each.watermark is not None), default=None
            )
        if self.strategy in {"fixed_delay", "bounded"} and any(
            name not in self.partitions for name in known
        ):
            return None
        awake = [
            each
            for each in everyone
            if self.strategy == "fixed_delay"
            or self.idle is None
            or now - each.last_seen < self.idle
        ]
        if self.strategy == "source_180ms" and everyone and not awake:
            return min(each.largest for each in everyone if each.largest is not None)
        if self.strategy == "adaptive" and self.warmup == "ignore" and len(awake) > 1:
            least = self.margins[0][0] if self.margins else 0
            awake = [each for each in awake if each.rows > least]
        return min((each.watermark for each in awake if each.watermark is not None), default=None)
