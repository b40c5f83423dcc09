"""What state costs when there is much of it: plan, commit, gaps beside a million work units.

    python tests/bench/bench_state.py [rounds]

Everything is on SQLite in a temporary folder. Prints the best of the rounds as wall time and as
CPU time of this process (of all processes for the whole command), with the goal and the ratio of
CPU time to it. Stores are made by direct inserts, which is not measured.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil.model.dataset import Commit, RunWork, WorkUnitOutcome
from dil.model.job import PlanningSpec, StateSpec, TableType
from dil.model.work_unit import Plan
from dil.planning import plan
from dil.planning.gaps import gaps
from dil.planning.partitions import watermark_range
from dil.planning.unit_history import Unit
from dil.state import open_store
from dil.state.blocks.canonical import key_hash
from dil.state.databases import sql
from dil.text.zones import EPOCH, MILLISECOND
from tests.bench.processes import measure
from tests.jobs import DAY_MS, DIL, write_job
from tests.unit.state.derived_store import Store, counting, plan_in_store
from tests.unit.state.long_chains import write_long_chains

UNITS = 100
PARTITIONS = 10_000
DUE = 10
CHAIN = 1_000_000
SPEC = PlanningSpec(
    start="1990-01-01",
    end="P0D",
    units=tuple(f'{{"id":"{number:03}"}}' for number in range(UNITS)),
    partition="daily",
    zone="UTC",
    table_type=TableType.APPEND_ONLY,
)
FIRST = 631_152_000_000  # 1990-01-01T00:00:00Z
# One more day is over than the units that are due have read.
NOW = FIRST + (PARTITIONS + 1) * DAY_MS
JOB = "orders"


@dataclass(frozen=True)
class Figure:
    """The best of several rounds, in milliseconds."""

    name: str
    goal: float
    wall: float
    cpu: float
    note: str = ""

    def __str__(self) -> str:
        times = f"{self.wall:9.2f} {self.cpu:9.2f} {self.goal:8.0f} {self.cpu / self.goal:6.2f}"
        return f"{self.name:44} {times}  {self.note}"


def main(rounds: int) -> None:
    """Measure and print."""
    print(f"{'best of ' + str(rounds):44} {'wall ms':>9} {'CPU ms':>9} {'goal':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for figure in _million_units(Path(folder), rounds):
            print(figure, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(_million_blocks(Path(folder), rounds), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(_whole_command(Path(folder), rounds), flush=True)


def _million_units(folder: Path, rounds: int) -> Iterator[Figure]:
    with open_store(StateSpec("sqlite", str(folder)), JOB, clock=lambda: NOW) as store:
        lease = store.acquire_lease("r0", lease_s=3600)
        first = Unit.of(SPEC.units[0], SPEC.unit_name, SPEC.datetime_name)
        store.commit(lease, _commit("first", _outcome(first, 0)))
        _insert_units(folder / "state.db")

        def planned() -> Plan:
            return plan(SPEC, now_ms=NOW, history=store.history())

        assert len(planned().work_units) == DUE
        yield _best(f"plan, {UNITS * PARTITIONS:,} units known, {DUE} due", 100, rounds, planned)
        attempts = iter(range(10**6))

        def committed() -> None:
            number = next(attempts)
            failure = _outcome(first, PARTITIONS // 2 + number, ok=False)
            assert store.commit(lease, _commit(f"run{number}", failure)) is not None

        name = f"commit of 1 in {UNITS * PARTITIONS:,}, to the disk"
        yield _best(name, 5, 4 * rounds, committed)

        def looked() -> None:
            window = watermark_range(SPEC, now_ms=NOW)
            assert len(gaps(SPEC, window, store.unit_stretches(), now_ms=NOW)) == UNITS

        yield _best(f"gaps of {UNITS * PARTITIONS:,} units", 2000, rounds, looked)
    yield _gaps_command(folder, rounds, "read but for the due ones")
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        connection.execute(
            "UPDATE work_unit SET status = 'FAILED', high = NULL WHERE low / ? % 10 = 0", (DAY_MS,)
        )
    yield _gaps_command(folder, rounds, "each tenth day failed")


def _gaps_command(folder: Path, rounds: int, note: str) -> Figure:
    """Measure ``dil state gaps --json`` as a whole process, on the store in the folder."""
    units = [json.loads(unit) for unit in SPEC.units or ()]
    watermarks = [
        {"name": SPEC.datetime_name, "type": "datetime", "range": {"from": SPEC.start, "to": "-"}},
        {"name": SPEC.unit_name, "type": "unit", "units": units},
    ]
    changes = {"ms__watermark": json.dumps(watermarks), "state__store__dir": str(folder)}
    job = write_job(folder / "job", "http://127.0.0.1:9", **changes)
    now = EPOCH + NOW * MILLISECOND
    return _of_command(
        "dil state gaps --json, whole process", 2000, rounds,
        ["state", "gaps", str(job), "--json", "--now", now.isoformat()], note,
    )  # fmt: skip


def _outcome(unit: Unit, index: int, *, ok: bool = True) -> WorkUnitOutcome:
    low = FIRST + index * DAY_MS
    high = low + DAY_MS
    return WorkUnitOutcome(unit.signature(low), unit.key, low, high, high if ok else None, 1)


def _commit(run: str, outcome: WorkUnitOutcome) -> Commit:
    return Commit(run, "c", f"dil/{JOB}", (), (), "", NOW, NOW, RunWork((outcome,)))


def _insert_units(path: Path) -> None:
    """Put in all work units as successes; the last units know one partition less."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for pragma in ("synchronous = OFF", "cache_size = -400000"):
            connection.execute(f"PRAGMA {pragma}")
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'work_unit'"
            " AND sql LIKE '%INDEX%'"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        connection.execute("DELETE FROM work_unit")
        connection.execute("DELETE FROM coverage")
        connection.executemany(sql.ADD_UNIT, _unit_rows())
        connection.executemany(sql.ADD_COVERAGE, _coverage_rows())
        for _, text in indexes:
            connection.execute(text)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _ends() -> Iterator[tuple[Unit, int]]:
    """Yield each unit with the number of partitions that it has read."""
    for number, text in enumerate(SPEC.units or ()):
        unit = Unit.of(text, SPEC.unit_name, SPEC.datetime_name)
        yield unit, PARTITIONS + (number < UNITS - DUE)


def _unit_rows() -> Iterator[tuple[object, ...]]:
    for unit, count in _ends():
        key = key_hash(unit.key)
        for index in range(count):
            low = FIRST + index * DAY_MS
            signature = unit.signature(low)
            digest = key_hash(signature)
            yield (
                key, signature, low, low + DAY_MS, low + DAY_MS, "COMMITTED", 1, None, "", None,
                3, digest, 0, JOB, digest,
            )  # fmt: skip


def _coverage_rows() -> Iterator[tuple[object, ...]]:
    for unit, count in _ends():
        end = FIRST + count * DAY_MS
        yield FIRST, end, 0, 0, 0, end, FIRST, 0, JOB, key_hash(unit.key)


def _million_blocks(folder: Path, rounds: int) -> Figure:
    store = Store(folder)
    write_long_chains(store, commits=CHAIN, input_blocks=CHAIN // 10)
    store.add("in", 100, 1)
    notes: set[str] = set()

    def planned() -> None:
        with counting(store.database) as tx:
            assert plan_in_store(tx, "out", inputs=("in",)) is not None
        own, theirs = tx.bodies["out"], tx.bodies["in"]
        notes.add(f"blocks read: own {own}, input {theirs}; rows in all {tx.rows_read}")

    figure = _best(f"plan a query, chain of {CHAIN:,} blocks", 1, 10 * rounds, planned)
    store.database.close()
    return Figure(figure.name, figure.goal, figure.wall, figure.cpu, "; ".join(sorted(notes)))


def _whole_command(folder: Path, rounds: int) -> Figure:
    job = write_job(folder, "http://127.0.0.1:9")
    arguments = ["plan", str(job), "--now", "2020-01-05T00:00:00Z"]
    return _of_command("dil plan, a small job, whole process", 500, rounds, arguments)


def _of_command(
    name: str, goal: float, rounds: int, arguments: list[str], note: str = ""
) -> Figure:
    usages = [measure([*DIL, *arguments]) for _ in range(rounds)]
    for usage in usages:
        if usage.exit_code:
            raise SystemExit(f"dil {arguments[0]} failed:\n{usage.stdout}\n{usage.stderr}")
    wall = min(usage.wall_s for usage in usages) * 1000
    cpu = min(usage.cpu_s for usage in usages) * 1000
    peak = max(usage.root_peak_kb for usage in usages) / 1024
    return Figure(name, goal, wall, cpu, f"{note}{', ' if note else ''}{peak:.0f} MB")


def _best(name: str, goal: float, rounds: int, act: Callable[[], object]) -> Figure:
    walls, cpus = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return Figure(name, goal, min(walls) * 1000, min(cpus) * 1000)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
