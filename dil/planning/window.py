"""Plans the window of a backfill: a job's partitions in a range, as far as runs have read them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence

from dil.errors import ConfigError, PlanningError
from dil.model.history import History, UnitRecord
from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.planning.partitions import Partitions, partition
from dil.planning.planner import ACTIVATION_NAME, labels_of
from dil.planning.unit_history import Unit
from dil.text.zones import find_zone, moment

LOW, HIGH, UNIT = "--from", "--to", "--unit"
_EXAMPLES = 3


def plan_window(
    spec: PlanningSpec,
    window: Interval,
    *,
    now_ms: int,
    history: History,
    activation: Sequence[str] | None = None,
    only: Collection[str] = (),
) -> Plan:
    """Return a plan that reads again the work units of a range that runs have read or tried; pure.

    The plan has whole partitions of the job's grid, each with an instant in the range. A partition
    that runs have read in part is read up to the same end, because the next run reads the rest.
    Partitions that no run has tried are due anyway; they are counted as skipped.

    Args:
        spec: The job's planning properties.
        window: The range, epoch ms UTC.
        now_ms: The one value of now, epoch ms UTC.
        history: The records of the job's runs.
        activation: The units as compact JSON if ``spec.units`` is None.
        only: The wanted units as compact JSON; all units if empty.

    Raises:
        ConfigError: the range is empty, or is not within the watermark's range; a unit is unknown;
            no run has tried any partition of the range.
        PlanningError: the units are not known.
    """
    partitions = _within(partition(spec, now_ms=now_ms), window)
    units = _units(spec, activation, only)
    label_of = labels_of(spec, now_ms)
    first, end = partitions.starts[0], partitions.starts[-1] + 1
    known = [history.records(unit.key, first, end) for unit in units]
    work_units = tuple(
        WorkUnit(
            record.signature,
            part.low,
            part.high,
            part,
            unit.name,
            unit.json,
            Reason.BACKFILL,
            None if label_of is None else label_of(part),
        )
        for interval in map(partitions.__getitem__, range(len(partitions)))
        for unit, records in zip(units, known, strict=True)
        if (record := records.get(unit.signature(interval.low))) is not None
        and not (part := _read_part(interval, record)).is_empty
    )
    if not work_units:
        raise ConfigError.single(
            f"{LOW} and {HIGH}",
            "name a range of which no run has read anything yet",
            "The next `dil run` reads the due work units of the range; a backfill only reads "
            "again what runs have read. `dil state show` shows how far runs have read.",
        )
    return Plan(
        now=now_ms,
        zone=partitions.zone,
        full_extract=False,
        cutoff=None,
        work_units=work_units,
        skipped=len(partitions) * len(units) - len(work_units),
        partitions=len(partitions),
    )


def _read_part(interval: Interval, record: UnitRecord) -> Interval:
    """Return the part of a partition that a run has read, or else has failed to read."""
    reached = record.high if record.succeeded_once else record.owed
    return Interval(interval.low, interval.high if reached is None else min(interval.high, reached))


def _within(all_of_them: Partitions, window: Interval) -> Partitions:
    """Return the partitions that have an instant in the range."""
    zone = find_zone(all_of_them.zone)
    if window.is_empty:
        raise ConfigError.single(
            LOW,
            f"is {moment(window.low, zone)}, which is not before {HIGH}, "
            f"{moment(window.high, zone)}",
            f"Let {LOW} be before {HIGH}: the range is [from, to).",
        )
    starts, ends = all_of_them.starts, all_of_them.ends
    if not starts:
        raise ConfigError.single(
            "ms.watermark",
            "has an empty range, so no rows can be read again",
            "Let from be before to.",
        )
    reach = f"the range of ms.watermark is {moment(starts[0], zone)} .. {moment(ends[-1], zone)}"
    if window.low < starts[0]:
        raise ConfigError.single(
            LOW,
            f"is {moment(window.low, zone)}, and {reach}",
            "Begin there; or let the watermark begin earlier, and run the job.",
        )
    if window.high > ends[-1]:
        raise ConfigError.single(
            HIGH,
            f"is {moment(window.high, zone)}, and {reach}",
            "End there: runs of the job read later rows.",
        )
    first, end = bisect_right(ends, window.low), bisect_left(starts, window.high)
    if first >= end:
        raise ConfigError.single(
            f"{LOW} and {HIGH}",
            "name a range that contains no partition",
            "`dil plan --all` shows the partitions.",
        )
    return Partitions(starts[first:end], ends[first:end], all_of_them.zone)


def _units(
    spec: PlanningSpec, activation: Sequence[str] | None, only: Collection[str]
) -> tuple[Unit, ...]:
    texts, name = activation, ACTIVATION_NAME
    if spec.units is not None:
        texts, name = spec.units, spec.unit_name
    if texts is None:
        raise PlanningError(
            "the job takes its units from its input or its source, which was not asked",
            "Pass the units.",
        )
    unknown = sorted(frozenset(only).difference(texts))
    if unknown:
        examples = ", ".join(texts[:_EXAMPLES]) or "none"
        more = f" and {len(texts) - _EXAMPLES:,} more" if len(texts) > _EXAMPLES else ""
        raise ConfigError.single(
            UNIT, f"{unknown[0]} is no unit of the job", f"Units of the job: {examples}{more}."
        )
    chosen = dict.fromkeys(text for text in texts if not only or text in only)
    return tuple(Unit.of(text, name, spec.datetime_name) for text in chosen)
