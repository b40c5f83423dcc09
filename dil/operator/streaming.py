"""Runs a job's stream: the loop of ``dil.streaming`` over the micro-batches of ``dil.run``."""

from __future__ import annotations

from collections.abc import Callable

from dil.errors import ConfigError
from dil.model.job import Job
from dil.model.report import RunReport
from dil.run.lease import new_run_id
from dil.run.micro_batches import micro_batches
from dil.run.options import RunOptions
from dil.run.report import report_disabled
from dil.storage import filesystem_for
from dil.streaming.checkpoint import CheckpointFolder
from dil.streaming.loop import StreamLoop, Surroundings


def run_stream(
    job: Job,
    options: RunOptions,
    *,
    stops: Callable[[], bool] = lambda: False,
    has_now: bool = False,
    forces_new_epoch: bool = False,
) -> RunReport:
    """Run a job in micro-batches until it has caught up or, as a service, has to stop.

    Args:
        job: A job with a stream.
        options: The caller's decisions.
        stops: Returns whether the stream should end between two micro-batches.
        has_now: Whether the caller gave the now of planning; else the clock gives it.
        forces_new_epoch: Whether to begin a new epoch despite a checkpoint of another chain.

    Raises:
        LeaseHeldError: another run of the job is under way.
        ConfigError: the configuration is wrong, or state shows that it would double rows.
        DilError: planning, state or publishing failed; staged files are kept for the next run.
    """
    spec = job.stream
    if spec is None:
        raise AssertionError("a job that is no stream runs once")
    if spec.is_service and has_now:
        raise ConfigError.single(
            "--now",
            "is given, but ms.stream.trigger makes the job a service, which uses the clock",
            "Leave it out, or add -D ms.stream.trigger=available_now.",
        )
    run_id = options.run_id or new_run_id(options.clock())
    if job.running.disabled:
        return report_disabled(job, run_id)
    around = Surroundings(
        now_ms=options.clock if spec.is_service else lambda: options.now_ms,
        stops=stops,
        sleep=options.sleep,
        forces_new_epoch=forces_new_epoch,
    )
    with micro_batches(job, options, run_id) as batches:
        files = filesystem_for(spec.checkpoint_dir)
        checkpoint = CheckpointFolder(files, spec.checkpoint_dir)
        planning = job.planning
        is_dated = planning.is_dated or job.query is not None
        loop = StreamLoop(spec, planning.limit, batches, checkpoint, around, is_dated=is_dated)
        return loop.run(run_id)
