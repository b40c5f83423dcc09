"""Runs a job inside another program, such as a notebook or an orchestrator."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from dil import config
from dil.errors import ConfigError, LeaseHeldError, LeaseLostError
from dil.model.report import RunReport
from dil.observe.redaction import redactor, secrets_of
from dil.observe.report import redacted
from dil.operator.streaming import run_stream
from dil.run.exit_codes import report_error
from dil.run.job_run import run_job
from dil.run.lease import new_run_id
from dil.run.options import RunOptions
from dil.run.plan_builder import read_plan
from dil.run.process import cache_dir, real_clock

log = logging.getLogger("dil.api")


def run_embedded(  # noqa: PLR0913 - the arguments of dil.api.run
    conf: str,
    *,
    now_ms: int | None,
    properties: Mapping[str, str],
    lenient: bool,
    wait_lease_s: float,
    plan_file: Path | None,
    spark: object,
    environ: Mapping[str, str],
) -> RunReport:
    """Run a job once; return its report without secrets, also when the run failed.

    Args:
        conf: The job file.
        now_ms: The now of planning, epoch ms UTC; None for the clock.
        properties: Overrides of properties.
        lenient: Whether unknown ``ms.*`` keys are warnings in place of errors.
        wait_lease_s: How many seconds to wait for another run of the job to end.
        plan_file: A plan that ``dil plan --out`` wrote, to be run exactly.
        spark: The session or context to run on; None for the active one, else a local one.
        environ: The environment of the process.

    Raises:
        ConfigError: the configuration is wrong, or state shows that it would double rows.
        LeaseHeldError: another run of the job is under way.
        LeaseLostError: another run took the lease over before this run published.
    """
    started_ms = real_clock()
    saved = None if plan_file is None else read_plan(plan_file)
    loaded = config.load(conf, overrides=properties, environ=environ, lenient=lenient)
    for notice in loaded.notices:
        log.log(logging.INFO if notice in loaded.infos else logging.WARNING, "%s", notice)
    run_id = new_run_id(real_clock())
    options = RunOptions(
        now_ms=started_ms if now_ms is None else now_ms,
        clock=real_clock,
        wait_lease_s=wait_lease_s,
        plan=saved,
        run_id=run_id,
        environ=environ,
        cache=cache_dir(environ),
        spark=None if spark is None else _context_of(spark),
        is_embedded=True,
    )
    started = time.monotonic()
    try:
        if loaded.job.stream is None or saved is not None:
            report = run_job(loaded.job, options)
        else:
            report = run_stream(loaded.job, options, has_now=now_ms is not None)
    except (ConfigError, LeaseHeldError, LeaseLostError):
        raise
    except Exception as error:  # a run that fails for any reason has a report
        log.debug("the run failed", exc_info=error)
        seconds = round(time.monotonic() - started, 3)
        report = report_error(error, job=loaded.job.name, run_id=run_id, seconds=seconds)
    return redacted(report, redactor(secrets_of(loaded.job)))


def _context_of(spark: object) -> object:
    """Return the SparkContext of a session; a context is one already.

    Raises:
        ConfigError: it is neither, or a session of Spark Connect, which has no context.
    """
    if hasattr(spark, "parallelize"):
        return spark
    try:
        context: object = spark.sparkContext  # type: ignore[attr-defined] # the except checks it
    except Exception as error:
        raise ConfigError.single(
            "spark",
            f"is a {type(spark).__module__}.{type(spark).__name__}, which has no SparkContext",
            "Pass a classic SparkSession or a SparkContext, or leave spark out.",
        ) from error
    return context
