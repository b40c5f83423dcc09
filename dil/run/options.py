"""The caller's choices for a run, in addition to the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dil.execution.executor import Executor
from dil.execution.stages import STAGE_BYTES, Executors
from dil.model.job import Job
from dil.model.task import TaskLogging
from dil.model.work_unit import Plan
from dil.observe.progress import Progress, SilentProgress
from dil.planning import SavedPlan


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The choices of a caller for one run.

    Attributes:
        now_ms: The run's now for planning, epoch ms UTC.
        clock: The real clock, epoch ms UTC.
        progress: Where progress is shown.
        wait_lease_s: How long to wait for another run of the job to end.
        accept_new_signatures: Whether to run although the shape of the watermark changed, or the
            state was lost.
        plan: The plan to run in place of the work that is due now. A saved plan runs unchanged. Of
            a bare plan, only the work units run that have not succeeded yet.
        known_schema: Schema of the dataset before its first run.
        run_id: Identity of the run; None makes a new one.
        environ: The environment, for Spark.
        cache: A folder that survives the run.
        executor: Runs tasks in Spark's place.
        sleep: Waits for a secondary input that does not exist yet.
        task_logging: How tasks log.
        stage_bytes: From this size on, staged files are rewritten in tasks.
        spark: A SparkContext to use and to leave running.
        is_embedded: Whether this process continues after the run.
    """

    now_ms: int
    clock: Callable[[], int]
    progress: Progress = field(default_factory=SilentProgress)
    wait_lease_s: float = 0.0
    accept_new_signatures: bool = False
    plan: SavedPlan | Plan | None = None
    known_schema: str = ""
    run_id: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None
    executor: Executor | None = None
    sleep: Callable[[float], None] = time.sleep
    task_logging: TaskLogging = field(default_factory=TaskLogging)
    stage_bytes: int = STAGE_BYTES
    spark: object = field(default=None, repr=False)
    is_embedded: bool = False

    def executors(self, job: Job, *, is_kept: bool = False) -> Executors:
        """Return the executors of a run; if ``is_kept``, one session serves all its stages."""
        return Executors(
            job,
            self.environ,
            self.cache,
            self.executor,
            spark=self.spark,
            is_embedded=self.is_embedded,
            is_kept=is_kept,
        )
