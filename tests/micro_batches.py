"""For tests of the loop: micro-batches that run nothing, and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dil.errors import DilError
from dil.model.interval import Interval
from dil.model.report import ReportedFailure, RunReport, RunStatus, UnitCounts
from dil.model.stream import Look, MicroBatch, StreamSpec, StreamState
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.storage import filesystem_for
from dil.streaming.checkpoint import CheckpointFolder
from dil.streaming.loop import StreamLoop, Surroundings
from dil.text.zones import iso

DAY_MS = 86_400_000


def unit(number: int) -> WorkUnit:
    low = number * DAY_MS
    return WorkUnit(
        f"[{number}]", low, low + DAY_MS, Interval(low, low + DAY_MS), "unit", "{}", Reason.NEW
    )


def plan_of(*numbers: int) -> Plan:
    return Plan(
        now=100 * DAY_MS,
        zone="UTC",
        full_extract=False,
        cutoff=None,
        work_units=tuple(map(unit, numbers)),
        skipped=0,
        left=0,
    )


@dataclass
class FakeBatches:
    """Work units that arrive, fail as told, and are committed in memory.

    Of a query each look finds one of them, and not what is behind it.
    """

    is_query: bool = False
    due: list[int] = field(default_factory=list)
    poison: set[int] = field(default_factory=set)
    policy: str = "full"
    looks: int = 0
    resets: int = 0
    ran: list[tuple[int, ...]] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    errors: list[DilError] = field(default_factory=list)
    on_look: Callable[[FakeBatches], None] = lambda _: None
    newest: StreamState | None = None

    def look(self, now_ms: int) -> Look:
        self.looks += 1
        self.on_look(self)
        if self.errors:
            raise self.errors.pop(0)
        if not self.is_query:
            return Look(plan_of(*self.due))
        return Look(plan_of(*self.due[:1]), takes="".join(f"block {n}" for n in self.due[:1]))

    def state(self) -> StreamState | None:
        return self.newest

    def run(self, due: Plan, batch: MicroBatch, *, is_alone: bool = False) -> RunReport:
        numbers = tuple(each.partition.low // DAY_MS for each in due.work_units)
        self.ran.append(numbers)
        failed = [number for number in numbers if number in self.poison]
        good = [number for number in numbers if number not in self.poison]
        is_recorded = not failed or self.policy == "successful" or is_alone
        if is_recorded:
            self.newest = StreamState(batch, {"done": max(numbers, default=0) * DAY_MS})
            self.done += good
            self.due = [number for number in self.due if number not in good]
        status = RunStatus.SUCCESS
        if failed:
            status = RunStatus.PARTIAL if good and is_recorded else RunStatus.FAILED
        return replace(
            self.summary(status),
            units=UnitCounts(len(numbers), len(good), len(failed)),
            rows=10 * len(good),
            bytes=1000 * len(good),
            failures=tuple(
                ReportedFailure(f"[{n}]", "DIL-SRC", "no", begins=iso(n * DAY_MS) or "")
                for n in failed
            ),
            is_recorded=is_recorded,
            files=tuple(f"file:///{n}" for n in good),
        )

    def summary(self, status: RunStatus) -> RunReport:
        return RunReport("feed", "", status, UnitCounts())

    def reset(self) -> None:
        self.resets += 1


@dataclass
class Clock:
    """Time passes by sleeping alone."""

    now_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.slept.append(seconds)


@dataclass
class World:
    batches: FakeBatches
    clock: Clock
    folder: str
    is_stopping: Callable[[], bool] = lambda: False

    def loop(self, **spec: object) -> StreamLoop:
        return StreamLoop(
            StreamSpec(checkpoint_dir=self.folder, **spec),  # type: ignore[arg-type]
            500,
            self.batches,
            CheckpointFolder(filesystem_for(self.folder), self.folder),
            Surroundings(
                now_ms=lambda: 100 * DAY_MS,
                stops=self.is_stopping,
                monotonic=lambda: self.clock.now_s,
                sleep=self.clock.sleep,
            ),
        )
