"""The driver holds little of each work unit, however many a run has."""

import os
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from dil import config
from dil.execution.executor import Execution, Watch
from dil.execution.spark import in_order, reports_parameter
from dil.model.report import RunStatus
from dil.model.task import Counters, RunContext, StagedFile, TaskReport
from dil.model.work_unit import WorkUnit
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.testing.in_process import InProcessExecutor
from tests.jobs import DAY_MS, ROOT, write_job

START_MS = 1_577_836_800_000  # 2020-01-01T00:00:00Z
UNITS_PER_TASK = 500
MOST_BYTES_EACH = 3_000


class StagingExecutor(InProcessExecutor):
    """Stages a file of one byte for each work unit; reports arrive as Spark brings them."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        arrived: list[TaskReport] = []
        parameter = reports_parameter()
        for start in range(0, len(units), UNITS_PER_TASK):
            folder = f"{run.staging_dir}/task-{start}"
            Path(folder).mkdir(parents=True)
            made = [
                _report(folder, unit, number)
                for number, unit in enumerate(units[start : start + UNITS_PER_TASK], start)
            ]
            parameter.addInPlace(arrived, pickle.loads(pickle.dumps(made)))
        watch(arrived)
        return Execution(in_order(arrived, units))


def _report(folder: str, unit: WorkUnit, number: int) -> TaskReport:
    path = f"{folder}/{unit.hash}-1-0.parquet"
    Path(path).write_bytes(b"x")
    file = StagedFile(path, 10, 1, f"{number:064x}")
    counters = Counters(1, 1, 10, 10, 0, 2_000 + number, 0, number / 7, 0.0, 10**8 + number)
    return TaskReport(unit.signature, unit.low, unit.high, 1, (file,), "id: int64", counters)


def peak_of_run(folder: Path, days: int) -> int:
    """Return the most that a run over two units and so many days has allocated at a time."""
    job = config.load(
        write_job(folder, "http://127.0.0.1:1", ms__work__unit__parallelism__max="-1"), environ={}
    ).job
    now = START_MS + days * DAY_MS
    options = RunOptions(
        now_ms=now, clock=lambda: now, executor=StagingExecutor(), run_id="20260101T000000-0a1b"
    )
    tracemalloc.start()
    try:
        report = run_job(job, options)
        assert (report.status, report.units.succeeded) == (RunStatus.SUCCESS, 2 * days)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def growth(folder: Path) -> float:
    """Return by how many bytes the peak grows with each work unit."""
    few, many = 100, 1_300
    peak_of_run(folder / "warm", few)  # what is imported late is no work unit's
    before = peak_of_run(folder / "few", few)
    return (peak_of_run(folder / "many", many) - before) / (2 * (many - few))


def test_each_work_unit_costs_the_driver_less_than_3_kb(tmp_path: Path) -> None:
    # In a process of its own: tables of the interpreter grow in leaps, with all that it ever did.
    # Measuring coverage takes memory too.
    environ = {key: value for key, value in os.environ.items() if "COVERAGE" not in key}
    command = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env=environ
    )
    assert 0 < float(done.stdout) < MOST_BYTES_EACH


if __name__ == "__main__":
    print(growth(Path(sys.argv[1])))
