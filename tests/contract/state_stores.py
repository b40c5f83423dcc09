"""State stores in folders, and the values that tests record.

The processes of ``child`` import this module, which therefore knows no server.
"""

import base64
import hashlib
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from dil.model.dataset import (
    Commit,
    Lease,
    Move,
    PublishedFile,
    RunRecord,
    RunWork,
    WorkUnitOutcome,
)
from dil.model.job import StateSpec
from dil.model.json import JsonObject
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
    # Names what is there of the store; empty before the first write.
    traces: Callable[[], list[str]] = list

    def open(self, job: str = "orders") -> StateStore:
        return open_store(self.spec, job, clock=self.clock)


def child(spec: StateSpec, body: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a real process that has ``place`` and an open ``store`` and runs ``body``."""
    packed = base64.b64encode(pickle.dumps(spec)).decode()
    program = f"""
import base64, pickle, sys
from tests.contract.state_stores import *
from dil.model.dataset import Intent
place = Place(pickle.loads(base64.b64decode({packed!r})))
store = place.open()
{textwrap.dedent(body)}
"""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def folder_place(kind: str, folder: Path) -> Place:
    def traces() -> list[str]:
        return [path.name for path in folder.iterdir()]

    return Place(StateSpec(kind, str(folder / "state")), traces=traces)


FOLDER_KINDS = ("sqlite", "fs", "filelog")
KINDS = (*FOLDER_KINDS, "postgresql", "mysql")


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


_OF_RUN = frozenset(field.name for field in fields(RunWork))


def committed(store: StateStore, lease: Lease, commit: Commit) -> JsonObject:
    """Commit what has a block, and return that."""
    sequence, block = store.commit(lease, commit), store.head()
    assert block is not None
    assert block["sequenceNumber"] == sequence
    return block


def commit_of(run: str, *outcomes: WorkUnitOutcome, **changes: object) -> Commit:
    """Return a run's commit; ``changes`` are members of it, or of what it learned."""
    learned = {name: changes.pop(name) for name in [*changes] if name in _OF_RUN}
    base = Commit(
        run_id=run,
        config_digest="c1",
        source_name="dil/orders",
        moves=(),
        removes=(),
        schema="",
        system_time=NOW,
        horizon=NOW,
        run=replace(RunWork(outcomes), **learned),
    )
    return replace(base, **changes)


def moves(*files: PublishedFile) -> tuple[Move, ...]:
    return tuple(Move(f"{each.uri}.staged", each) for each in files)


def run_record(run: str, **changes: object) -> RunRecord:
    record = RunRecord(run, "orders", NOW, NOW, "full", "c1", "/staging/" + run, "running")
    return replace(record, **changes)
