"""A change of the watermark that is accepted never reads anything twice (rule P33)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dil import planning
from dil.model.dataset import UnitEntry
from dil.model.job import Job, PlanningSpec
from dil.run.plan_checks import shape_refusal
from dil.text.instants import parse_instant

DAYS = st.integers(1, 28).map(lambda day: f"2024-{1 + day % 3:02}-{day:02}")
STARTS = st.one_of(
    DAYS, st.builds("{}T{:02}:00:00".format, DAYS, st.sampled_from([6, 12])), st.just("P20D")
)
ZONES = st.sampled_from(["UTC", "Etc/UTC", "America/New_York", "Etc/GMT+6"])
KINDS = st.sampled_from(["none", "daily", "weekly", "monthly", "hourly"])
ENDS = st.sampled_from(["P0D", "-", "2024-02-10", "2024-04-20"])
# A window that moves with now is another one each day, for partitions longer than a day.
SPECS = st.builds(
    PlanningSpec,
    start=STARTS,
    end=ENDS,
    zone=ZONES,
    partition=KINDS,
    partial=st.booleans(),
    limit=st.sampled_from([None, 3]),
).filter(lambda spec: spec.partition in {"daily", "hourly"} or not spec.start.startswith("P"))


def instant(text: str) -> int:
    return parse_instant(text, now_ms=0, zone="UTC", end=False).ms


@dataclass
class Lake:
    """What runs have read of one unit, and what they recorded."""

    shape: str | None = None
    entries: dict[str, UnitEntry] = field(default_factory=dict)
    read: list[tuple[int, int]] = field(default_factory=list)

    def run(self, spec: PlanningSpec, now_ms: int) -> bool:
        """Do what a run does; return whether it was accepted."""
        state, properties = SimpleNamespace(enabled=True), SimpleNamespace(origin=lambda _: None)
        job: Any = SimpleNamespace(planning=spec, state=state, name="j", properties=properties)
        if shape_refusal(cast("Job", job), self.shape, self.entries.values, now_ms) is not None:
            return False
        self.shape = planning.shape(spec)
        history = {each.signature: each.high for each in self.entries.values()}
        found = planning.plan(
            spec, now_ms=now_ms, history=planning.BareHistory(cast("dict[str, int]", history))
        )
        for unit in found.work_units:
            for low, high in self.read:
                assert high <= unit.low or low >= unit.high, (spec, self)
            self.read.append((unit.low, unit.high))
            self.entries[unit.signature] = UnitEntry(
                unit.signature, unit.partition.low, unit.partition.high, unit.high, "COMMITTED", 1
            )
        return True


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SPECS, st.integers(0, 20)), min_size=2, max_size=6))
def test_no_accepted_change_reads_a_committed_window_again(
    runs: list[tuple[PlanningSpec, int]],
) -> None:
    lake, now_ms = Lake(), instant("2024-03-05")
    for spec, days in runs:
        now_ms += days * 86_400_000
        lake.run(spec, now_ms)


@settings(max_examples=20, deadline=None)
@given(STARTS, st.sampled_from(["daily", "hourly"]), st.integers(0, 30), st.booleans())
def test_from_may_move_on_the_grid_either_way(
    start: str, kind: str, days: int, is_later: bool
) -> None:
    assume(not start.startswith("P"))
    now_ms = instant("2024-04-05")
    lake = Lake()
    first, moved = instant(start), instant(start) + days * 86_400_000
    texts = [planning_text(first), planning_text(moved)]
    specs = [
        PlanningSpec(start=text, end="P0D", zone="UTC", partition=kind)
        for text in (texts if is_later else reversed(texts))
    ]
    assert all(lake.run(spec, now_ms) for spec in specs)
    assert lake.run(specs[0], now_ms)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 23), st.integers(0, 60))
def test_the_newest_day_may_be_half_read_when_the_days_after_it_become_hours(
    hour: int, later: int
) -> None:
    days = PlanningSpec(start="2024-01-01", end="-", zone="UTC", partition="daily", partial=True)
    now_ms = instant(f"2024-01-03T{hour:02}:00:00")
    lake = Lake()
    assert lake.run(days, now_ms)

    def hours_from(day: str) -> PlanningSpec:
        return replace(days, composite=(("daily", "2024-01-01", day), ("hourly", day, "-")))

    now_ms += later * 3_600_000
    assert not lake.run(hours_from("2024-01-03"), now_ms)
    assert lake.run(hours_from("2024-01-04"), now_ms)
    assert sum(high - low for low, high in lake.read) == now_ms - instant("2024-01-01")


def planning_text(ms: int) -> str:
    """Return an instant as a watermark writes it."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
