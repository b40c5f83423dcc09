"""What a caller of a run decides, beside the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dil.execution.executor import Executor
from dil.execution.stages import STAGE_BYTES
from dil.model.work_unit import Plan
from dil.observe.progress import Progress, SilentProgress
from dil.planning import SavedPlan


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a caller decides about one run.

    ``now_ms`` is the run's now for planning, ``clock`` the real clock, both epoch ms UTC.
    ``wait_lease_s`` is how long to wait for another run to end. ``cache`` is a folder that survives
    the run. ``plan`` is run in place of what is due now: a kept one as it is, of a bare one what
    has not succeeded yet. ``known_schema`` is that of the dataset before its first run.
    ``executor`` takes Spark's place, ``sleep`` waits for secondary input that is not there yet.
    ``log_level`` and ``log_json`` are how tasks log. They rewrite what has ``stage_bytes`` or more.
    ``spark`` is a SparkContext to use and to leave running; ``is_embedded`` tells that this process
    goes on after the run.
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
    log_level: str = "WARNING"
    log_json: bool = False
    stage_bytes: int = STAGE_BYTES
    spark: object = field(default=None, repr=False)
    is_embedded: bool = False
