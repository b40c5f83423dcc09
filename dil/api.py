"""The public Python interface: plan a job, parse an instant, follow event times, run a job.

``plan``, ``parse_instant`` and ``event_watermark`` read no files, no clock, no Spark.
``run`` does what ``dil run`` does, for a notebook or an orchestrator.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dil import planning
from dil.config import event_time_spec, planning_spec
from dil.errors import ConfigError
from dil.model.history import UnitRecord
from dil.model.json import JsonObject, compact
from dil.model.work_unit import Plan
from dil.text.instants import INSTANT_FIX, InstantError
from dil.text.instants import parse_instant as parse_instant_text
from dil.text.zones import EPOCH, MILLISECOND

if TYPE_CHECKING:
    from dil.eventtime import EventWatermark
    from dil.model.report import RunReport

__all__ = ["Plan", "event_watermark", "parse_instant", "plan", "run"]


def plan(
    properties: Mapping[str, str],
    *,
    now: datetime,
    history: Mapping[str, int | UnitRecord] = {},
    activation: Sequence[Mapping[str, object]] | None = None,
) -> Plan:
    """Return the work units that a run would execute now.

    Args:
        properties: The job's properties as text; properties without effect on planning are ignored.
        now: The time to take for now; it must have a time zone.
        history: The last high watermark in epoch ms UTC by signature. If the high watermark equals
            the partition's start, the work unit never succeeded. A UnitRecord in place of the
            number can also say that the last attempt failed.
        activation: The rows of the job's activation input, in order; each row is one unit.

    Raises:
        ConfigError: ``now`` has no time zone, or properties are wrong.
        PlanningError: the job has activation input and ``activation`` is None, or the plan breaks
            a limit that the job sets.
    """
    spec, _notices = planning_spec(properties)
    return planning.plan(
        spec,
        now_ms=_epoch_ms(now),
        history=planning.BareHistory(history),
        activation=None
        if activation is None
        else [compact(cast("JsonObject", row)) for row in activation],
    )


def parse_instant(text: str, *, now: datetime) -> int:
    """Return the epoch milliseconds of a text that a watermark's ``to`` accepts, such as ``P1D``.

    A text that names no zone is in America/Los_Angeles.

    Raises:
        ConfigError: ``now`` has no time zone, or the text is no point in time.
    """
    now_ms = _epoch_ms(now)
    try:
        return parse_instant_text(text, now_ms=now_ms, end=True).ms
    except InstantError as error:
        raise ConfigError.single(planning.WATERMARK_KEY, str(error), INSTANT_FIX) from error


def event_watermark(
    properties: Mapping[str, str], state: bytes | None = None, floor: int | None = None
) -> EventWatermark:
    """Return an event-time watermark, which judges batches of rows and follows them.

    Args:
        properties: ``ms.event.*`` and ``ms.late.*`` as text; others are ignored.
        state: The ``state()`` of an earlier watermark, which the new watermark continues. If it was
            made under another ``ms.event.watermark``, only its watermark is taken.
        floor: A watermark, epoch ms UTC, to begin at if the state is lost. If ``state`` is given,
            too, the larger watermark counts.

    Raises:
        ConfigError: properties are wrong, or ``state`` is not a state.

    Example:
        >>> from datetime import UTC, datetime
        >>> w = event_watermark({"ms.event.watermark": "bounded", "ms.event.delay": "PT2S"})
        >>> w.commit([1_000, 5_000], now=datetime(2026, 1, 1, tzinfo=UTC)).watermark
        3000
        >>> w.commit([3_000, 2_999], now=datetime(2026, 1, 1, tzinfo=UTC)).late
        [False, True]
    """
    from dil.eventtime import EventWatermark  # imported here: planning does without Arrow

    return EventWatermark(event_time_spec(properties), state=state, floor=floor)


def run(
    conf: str | PathLike[str],
    *,
    now: datetime | None = None,
    properties: Mapping[str, str] = {},
    lenient: bool = False,
    wait_lease_s: float = 0.0,
    plan: str | PathLike[str] | None = None,
    spark: object = None,
) -> RunReport:
    """Run a job once, as ``dil run`` does; return its report, also when the run failed.

    This installs no signal handlers and never ends the process. A Spark session that the caller
    made is used and left running; a session that the run had to start is stopped with its JVM. This
    function may be called from any thread, and several times in one process. A KeyboardInterrupt
    while tasks run is reported as an interrupted run (exit code 130); at other times it passes
    through. In both cases the next run recovers.

    Args:
        conf: The job file.
        now: The time to take for now in planning; it must have a time zone. By default the clock.
        properties: Overrides of properties, as ``-D`` on the command line.
        lenient: Whether unknown ``ms.*`` keys are warnings in place of errors.
        wait_lease_s: How many seconds to wait for another run of the job to end.
        plan: A plan that ``dil plan --out`` wrote, to be run exactly, with its own now.
        spark: The SparkSession or SparkContext to run on. By default the active session of this
            process; if there is none, a local session is started when there is work.

    Raises:
        ConfigError: the configuration is wrong, or state shows that it would double rows.
        LeaseHeldError: another run of the job is under way.
        LeaseLostError: another run took the lease over before this run published.

    Example:
        >>> report = dil.api.run("orders.conf")  # doctest: +SKIP
        >>> if report.exit_code:  # doctest: +SKIP
        ...     raise RuntimeError(report.failures)
    """
    from dil.operator.embedded_run import run_embedded  # planning does without all this

    if plan is not None and now is not None:
        raise ConfigError.single("plan", "has a now of its own", "Leave now out.")
    return run_embedded(
        os.fspath(conf),
        now_ms=None if now is None else _epoch_ms(now),
        properties=properties,
        lenient=lenient,
        wait_lease_s=wait_lease_s,
        plan_file=None if plan is None else Path(plan),
        spark=spark,
        environ=os.environ,
    )


def _epoch_ms(now: datetime) -> int:
    if now.utcoffset() is None:
        raise ConfigError.single("now", "has no time zone", "Pass an aware datetime, such as UTC")
    return (now - EPOCH) // MILLISECOND
