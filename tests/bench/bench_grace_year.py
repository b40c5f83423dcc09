"""A year of a source whose rows come late in changing ways: what grace periods miss and cost.

    python tests/bench/bench_grace_year.py [quantile] [probe every] [max days]

Real are the planner, the lateness meter and the choice of the grace period, run for each of 365
midnights in this process. Simulated are the source, and publishing: a work unit that is read gets
all rows that have come by then. Prints how the year went with a fixed grace period of one day, with
one of seven, and with ms.grace.mode=auto: rows that had come by the last midnight and were not
published, those of them that no later run reads, rows that were published later than seven days
publish them, rows that had come and were not there on the average night after the first 30, rows
that were read again. The goal: auto misses no more than seven days do, and reads back less than
half as much.
"""

from __future__ import annotations

import random
import sys
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil.eventtime.lateness import CommitLateness, LatenessMeter, histogram_of
from dil.model.grace import GraceMeasure, GraceMode, GraceSpec
from dil.model.interval import DAY_MS, HOUR_MS
from dil.model.job import PlanningSpec
from dil.planning import BareHistory, plan
from dil.planning.grace import plan_by_measure

DAYS, ROWS, WARM = 365, 5_000, 30
START = 1_704_067_200_000  # 2024-01-01T00:00Z
MINUTE_MS = 60_000
LATE_SHARE = 0.001
# The month in which rows are at most 6 hours late, and two days in which none come.
QUIET, OUTAGE = range(150, 180), (200 * DAY_MS, 202 * DAY_MS)


@dataclass(frozen=True)
class Day:
    """The rows of one day in the order of their arrival: when they came, and when they happened."""

    arrived: list[int]
    times: list[int]


def source() -> list[Day]:
    """Return the rows of each day; most come within minutes, 0.1 % up to three days late."""
    chance = random.Random(17)
    days = []
    for day in range(DAYS):
        rows = []
        for _ in range(ROWS):
            at = day * DAY_MS + chance.randrange(DAY_MS)
            late = chance.expovariate(1 / (2 * MINUTE_MS))
            if chance.random() < LATE_SHARE:
                late = chance.uniform(0, 6 * HOUR_MS if day in QUIET else 3 * DAY_MS)
            came = at + int(late)
            rows.append((OUTAGE[1] if OUTAGE[0] <= came < OUTAGE[1] else came, at))
        rows.sort()
        days.append(Day([START + came for came, _ in rows], [START + at for _, at in rows]))
    return days


@dataclass
class Year:
    """One way to choose the grace period, and what it led to.

    ``published`` has for each day the number of the run that published each of its rows.
    """

    name: str
    spec: PlanningSpec
    published: list[list[int]] = field(default_factory=lambda: [[] for _ in range(DAYS)])
    reread: list[int] = field(default_factory=list)
    absent: list[int] = field(default_factory=list)
    graces: Counter[str] = field(default_factory=Counter)
    meter: LatenessMeter = field(default_factory=LatenessMeter)
    highs: dict[str, int] = field(default_factory=dict)

    def run(self, number: int, days: list[Day]) -> None:
        """Do what the run at a midnight does: plan, read, publish, measure."""
        now = START + number * DAY_MS
        history, grace = BareHistory(self.highs), self.spec.grace
        measure = GraceMeasure(self.meter.recommended_ms(grace), self.meter.runs_since_probe)
        found = plan_by_measure(
            self.spec, measure, lambda spec: plan(spec, now_ms=now, history=history)
        )
        new: list[int] = []
        reread = 0
        for unit in found.work_units:
            day = (unit.partition.low - START) // DAY_MS
            known = self.published[day]
            come = bisect_right(days[day].arrived, now)
            new += days[day].times[len(known) : come]
            reread += len(known)
            known += [number] * (come - len(known))
            self.highs[unit.signature] = unit.high
        self.reread.append(reread)
        self.absent.append(self.missed(days, now))
        is_probe = found.grace_ms >= grace.high_ms
        self.graces[f"{found.grace_ms // DAY_MS} days{', probe' if is_probe else ''}"] += 1
        self.measure(new, found.grace_ms, is_probe=is_probe)

    def measure(self, new: list[int], grace_ms: int, *, is_probe: bool) -> None:
        """Add what a commit measured of its new rows."""
        before, largest = self.meter.largest, max(new, default=None)
        commit = None
        if before is not None and largest is not None:
            histogram = histogram_of(pa.array(new, pa.int64()), before)
            after = max(before, largest)
            commit = CommitLateness(histogram, grace_ms, is_probe, before, after)
        self.meter = self.meter.after(commit, is_probe=is_probe).with_largest(largest)

    def missed(self, days: list[Day], now: int, before: int = DAYS) -> int:
        """Return how many rows of the days before a day had come and were not published."""
        return sum(
            bisect_right(day.arrived, now) - len(known)
            for day, known in zip(days[:before], self.published[:before], strict=True)
        )

    def lost(self, days: list[Day]) -> int:
        """Return how many of the missed rows no later run reads, as late as it may come."""
        grace = self.spec.grace
        reach = grace.high_ms if grace.mode is GraceMode.AUTO else self.spec.grace_ms
        return self.missed(days, START + DAYS * DAY_MS, DAYS - reach // DAY_MS)

    def later_than(self, other: Year) -> int:
        """Return how many rows were published, but in a later run than by another way."""
        return sum(
            mine > theirs
            for own, its in zip(self.published, other.published, strict=True)
            for mine, theirs in zip(own, its, strict=False)
        )


def years(quantile: Fraction, every: int, most_days: int) -> list[Year]:
    """Return the ways that are compared; auto begins with seven days, until enough is measured."""
    spec = PlanningSpec(start="2024-01-01", end="-", partition="daily", zone="UTC")
    auto = GraceSpec(GraceMode.AUTO, quantile, high_ms=most_days * DAY_MS, probe_every=every)
    one, seven = (replace(spec, grace_ms=days * DAY_MS) for days in (1, 7))
    return [
        Year("fixed, 1 day", one),
        Year("fixed, 7 days", seven),
        Year("auto", replace(seven, grace=auto)),
    ]


def main(quantile: Fraction, every: int, most_days: int) -> None:
    """Print the table."""
    days = source()
    compared = years(quantile, every, most_days)
    for year in compared:
        for number in range(1, DAYS + 1):
            year.run(number, days)
    _, seven, auto = compared
    end = START + DAYS * DAY_MS
    print(f"{DAYS} daily runs, {DAYS * ROWS:,} rows, {LATE_SHARE:.1%} of them late")
    print(
        f"auto: ms.grace.quantile={float(quantile):g}, ms.grace.probe.every={every}, "
        f"ms.grace.max=P{most_days}D\n"
    )
    heads = ("not published", "for good", "later than 7", "average night", "read again")
    print(f"{'grace period':14}" + "".join(f"{head:>15}" for head in heads))
    for year in compared:
        numbers = (
            year.missed(days, end),
            year.lost(days),
            year.later_than(seven),
            round(sum(year.absent[WARM:]) / (DAYS - WARM)),
            sum(year.reread),
        )
        print(f"{year.name:14}" + "".join(f"{number:>15,}" for number in numbers))
    print("\nauto read back: " + ", ".join(f"{n} runs {name}" for name, n in auto.graces.items()))
    missed, of_seven = auto.missed(days, end), seven.missed(days, end)
    share = sum(auto.reread) / sum(seven.reread)
    verdict = "reached" if missed <= of_seven and share < 1 / 2 else "missed"
    print(
        f"goal {verdict}: {missed:,} rows not published (fixed 7: {of_seven:,}), "
        f"{share:.0%} of what fixed 7 read again"
    )


if __name__ == "__main__":
    words = sys.argv[1:] + ["0.9997", "14", "17"][len(sys.argv) - 1 :]
    main(Fraction(words[0]), int(words[1]), int(words[2]))
