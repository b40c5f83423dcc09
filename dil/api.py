"""The public Python face: what a job would do and what a text of time means, without side effects.

No files are read, no clock, no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from dil import planning
from dil.config import planning_spec
from dil.errors import ConfigError
from dil.model.history import UnitRecord
from dil.model.json import JsonObject, compact
from dil.model.work_unit import Plan
from dil.text.instants import INSTANT_FIX, InstantError
from dil.text.instants import parse_instant as parse_instant_text
from dil.text.zones import EPOCH, MILLISECOND

__all__ = ["Plan", "parse_instant", "plan"]


def plan(
    properties: Mapping[str, str],
    *,
    now: datetime,
    history: Mapping[str, int | UnitRecord] = {},
    activation: Sequence[Mapping[str, object]] | None = None,
) -> Plan:
    """Return the work units that a run would execute now.

    Args:
        properties: The job's properties as text; those that do not matter to planning are ignored.
        now: The aware time that stands for now.
        history: Last high watermark in epoch ms UTC by signature; a high that equals its
            partition's start means that the work unit never succeeded. A UnitRecord in its place
            can also tell that the last attempt failed.
        activation: The rows of the job's activation input, in order; each is one unit.

    Raises:
        ConfigError: ``now`` has no time zone, or properties are wrong.
        PlanningError: the job has activation input and ``activation`` is None, or the plan breaks
            a limit that the job sets.
    """
    spec, _notices = planning_spec(properties)
    return planning.plan_on_demand(
        spec,
        now_ms=_epoch_ms(now),
        history=planning.BareHistory(history),
        activation=None
        if activation is None
        else [compact(cast("JsonObject", row)) for row in activation],
    )


def parse_instant(text: str, *, now: datetime) -> int:
    """Return the epoch milliseconds of a text that a watermark's ``to`` accepts, such as ``P1D``.

    Texts that name no zone are in America/Los_Angeles.

    Raises:
        ConfigError: ``now`` has no time zone, or the text is no point in time.
    """
    now_ms = _epoch_ms(now)
    try:
        return parse_instant_text(text, now_ms=now_ms, end=True).ms
    except InstantError as error:
        raise ConfigError.single(planning.WATERMARK_KEY, str(error), INSTANT_FIX) from error


def _epoch_ms(now: datetime) -> int:
    if now.utcoffset() is None:
        raise ConfigError.single("now", "has no time zone", "Pass an aware datetime, such as UTC")
    return (now - EPOCH) // MILLISECOND
