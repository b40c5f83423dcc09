"""Whatever writers of one file log do in between each other, it equals some order one by one."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dil.errors import CommitConflictError
from dil.state.databases import sql
from dil.state.filelog.file_log import FileLogDatabase
from tests.unit.state.file_logs import JOB, InterruptedFilesystem, Log, quick_folder

pytestmark = pytest.mark.slow

WRITERS = 3
COUNT = "SELECT count(*) FROM committed_run"
ROWS = "SELECT run_id, seq FROM committed_run ORDER BY seq"


@dataclass(frozen=True)
class Step:
    """One transaction of a writer, and what others do during its block and before it lands.

    ``count`` reads how many rows there are and adds one with that number; ``blind`` adds a row
    without reading; ``look`` only reads; ``reopen`` forgets what was read so far.
    """

    kind: str
    writer: int
    during: Sequence["Step"] = ()
    landing: Sequence["Step"] = ()


@dataclass
class World:
    """Writers of one folder, and what they were told."""

    databases: list[FileLogDatabase]
    files: list[InterruptedFilesystem]
    busy: set[int] = field(default_factory=set)
    blind: int = 0
    counted: list[int] = field(default_factory=list)

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.writer not in self.busy:
                self.busy.add(step.writer)
                try:
                    self.act(step)
                finally:
                    self.busy.remove(step.writer)

    def act(self, step: Step) -> None:
        database = self.databases[step.writer]
        if step.kind == "reopen":
            database.close()
        elif step.kind == "look":
            done = len(self.counted)
            with database.read() as tx:
                before = tx.row(COUNT)
                self.run(step.during)
                assert tx.row(COUNT) == before
            assert before is not None
            assert before[0] >= done
        elif step.kind == "blind":
            self.add_blindly(step)
        else:
            self.add_counted(step)

    def add_blindly(self, step: Step) -> None:
        """Nothing that others do contradicts it: it must always get through."""
        with self.databases[step.writer].write() as tx:
            tx.change(sql.ADD_FILE, JOB, f"{self.blind:064}", "uri", self.blind)
            self.blind += 1
            self.run(step.during)
            self.at_landing(step)

    def add_counted(self, step: Step) -> None:
        found: tuple[Any, ...] | None = None
        try:
            with self.databases[step.writer].write() as tx:
                found = tx.row(COUNT)
                assert found is not None
                self.run(step.during)
                tx.change(sql.ADD_COMMITTED, JOB, f"r{found[0]}/{step.writer}", found[0])
                self.at_landing(step)
        except CommitConflictError:
            # Only true when somebody else has taken that number.
            assert found is not None
            assert found[0] in self.counted
        else:
            self.counted.append(found[0])

    def at_landing(self, step: Step) -> None:
        files = self.files[step.writer]

        def listener(operation: str, is_before: bool) -> None:
            if is_before and operation.startswith("put_if_absent"):
                files.listener = lambda operation, is_before: None
                self.run(step.landing)

        files.listener = listener


@contextmanager
def world() -> Iterator[World]:
    with quick_folder() as folder:
        log = Log(folder, entries_per_snapshot=2)
        files = [InterruptedFilesystem() for _ in range(WRITERS)]
        found = World([log.database(each) for each in files], files)
        yield found
        check(found, log)
        for database in found.databases:
            database.close()


def check(found: World, log: Log) -> None:
    expected = list(range(len(found.counted)))
    with closing(log.database()) as fresh:
        for database in (*found.databases, fresh):
            with database.read() as tx:
                assert [row[1] for row in tx.rows(ROWS)] == expected
                assert tx.row("SELECT count(*) FROM live_file") == (found.blind,)
    assert sorted(found.counted) == expected


def steps(depth: int) -> st.SearchStrategy[list[Step]]:
    inner = steps(depth - 1) if depth else st.just([])
    kinds = st.sampled_from(["count", "count", "blind", "look", "reopen"])
    step = st.builds(Step, kinds, st.integers(0, WRITERS - 1), inner, inner)
    return st.lists(step, max_size=4 if depth else 6)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps(2))
def test_interleaved_transactions_equal_some_serial_order(program: list[Step]) -> None:
    with world() as found:
        found.run(program)
