"""What the driver itself does for each work unit, and for each question to its coordinator.

    python tests/bench/bench_driver.py [work units]

Tasks do nothing but leave a file of one byte each, so that planning, publishing and state are what
is measured; without Spark, in one process. CPU time of the tasks is counted apart.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import Process
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil import config
from dil.coordination.client import DriverServices
from dil.coordination.server import CoordinatorServer
from dil.coordination.services import RequestLimits, RunServices
from dil.execution.executor import Execution, Watch
from dil.model.task import CoordinatorAddress, RunContext
from dil.model.work_unit import WorkUnit
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import DAY_MS, write_job
from tests.unit.run.test_driver_memory import START_MS, StagingExecutor

QUESTIONS = 5_000
_LIMITS = RequestLimits(0.0, 10**9)


class _TimedExecutor(StagingExecutor):
    """Tells what the tasks took, and how large their reports are."""

    seconds = 0.0
    report_bytes = 0.0

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        begun = time.process_time()
        done = super().execute(run, units, watch)
        self.report_bytes = len(pickle.dumps(done.reports)) / len(units)
        self.seconds = time.process_time() - begun
        return done


def run_driver(folder: Path, units: int) -> None:
    """Run so many work units and print what each costs."""
    conf = write_job(folder, "http://127.0.0.1:1", ms__work__unit__parallelism__max="-1")
    now, tasks = START_MS + units // 2 * DAY_MS, _TimedExecutor()
    options = RunOptions(now_ms=now, clock=lambda: now, executor=tasks)
    begun = time.process_time()
    report = run_job(config.load(conf, environ={}).job, options)
    spent = time.process_time() - begun - tasks.seconds
    print(
        f"{report.units.succeeded:,} work units: {spent / units * 1e3:.2f} CPU ms each,"
        f" {tasks.report_bytes:.0f} bytes a report"
    )


def ask_coordinator() -> None:
    """Ask for tickets over loopback and print what one costs."""
    with CoordinatorServer(RunServices(_LIMITS), "127.0.0.1", "127.0.0.1", 1) as server:
        asking = Process(target=_ask, args=(server.address,))
        begun, cpu = time.monotonic(), time.process_time()
        asking.start()
        asking.join()
        wall, spent = time.monotonic() - begun, time.process_time() - cpu
    print(
        f"a question to the coordinator: {wall / QUESTIONS * 1e6:.0f} us, of which the driver's"
        f" CPU {spent / QUESTIONS * 1e6:.0f} us"
    )


def _ask(address: CoordinatorAddress) -> None:
    services = DriverServices(address, _LIMITS)
    for _ in range(QUESTIONS):
        services.ticket(None)
    services.close()


if __name__ == "__main__":
    ask_coordinator()
    with tempfile.TemporaryDirectory() as temporary:
        run_driver(Path(temporary), int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
