"""The state stores under contract, and the values that their tests record."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from dil.model.dataset import Commit, Move, PublishedFile, RunRecord, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state import open_store

DAY = 86_400_000
START = 1_704_067_200_000  # 2024-01-01T00:00:00Z
NOW = START + 400 * DAY


@dataclass
class Clock:
    now: int = NOW

    def __call__(self) -> int:
        return self.now


@dataclass
class Place:
    """Where a backend keeps state; stores opened here see each other's commits."""

    spec: StateSpec
    clock: Clock = field(default_factory=Clock)

    def open(self, job: str = "orders") -> StateStore:
        return open_store(self.spec, job, clock=self.clock)


def sqlite_place(folder: Path) -> Place:
    return Place(StateSpec("sqlite", str(folder / "state")))


def local_fs_place(folder: Path) -> Place:
    return Place(StateSpec("fs", str(folder / "state")))


FACTORIES: dict[str, Callable[[Path], Place]] = {
    "sqlite": sqlite_place,
    "fs": local_fs_place,
}


def signature(day: int, unit: str = "{}") -> str:
    return f"[watermark.dt.{START + day * DAY}, watermark.u.{unit}]"


def outcome(
    day: int, *, unit: str = "{}", ok: bool = True, attempts: int = 1, days: int = 1
) -> WorkUnitOutcome:
    low = START + day * DAY
    high = low + days * DAY
    return WorkUnitOutcome(
        signature=signature(day, unit),
        unit_key=f"u.{unit}",
        low=low,
        expected_high=high,
        high=high if ok else None,
        attempts=attempts,
        error="" if ok else "boom",
    )


def file(name: str, *, day: int = 0, rows: int = 10, run: str = "r1") -> PublishedFile:
    return PublishedFile(
        uri=f"file:///data/{name}",
        signature=signature(day),
        rows=rows,
        bytes=rows * 7,
        sha256=hashlib.sha256(name.encode()).hexdigest(),
        run_id=run,
    )


def commit_of(run: str, *outcomes: WorkUnitOutcome, **changes: object) -> Commit:
    base = Commit(
        run_id=run,
        config_digest="c1",
        source_name="dil/orders",
        moves=(),
        removes=(),
        outcomes=outcomes,
        schema="",
        system_time=NOW,
        horizon=NOW,
    )
    return replace(base, **changes)


def moves(*files: PublishedFile) -> tuple[Move, ...]:
    return tuple(Move(f"{each.uri}.staged", each) for each in files)


def run_record(run: str, **changes: object) -> RunRecord:
    record = RunRecord(run, "orders", NOW, NOW, "full", "c1", "/staging/" + run, "running")
    return replace(record, **changes)
