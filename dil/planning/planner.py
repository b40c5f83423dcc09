"""Plans one run: all partitions of all units, without those that are not due (P16 to P31)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from dil.errors import PlanningError
from dil.model.grace import ProbeRest
from dil.model.history import History, PastRuns
from dil.model.interval import Interval
from dil.model.job import PlanningSpec, TableType
from dil.model.on_demand import OnDemand
from dil.model.work_unit import Plan, PlannedClosedLabels, Reason, WorkUnit
from dil.planning.cutoff import CutoffRule
from dil.planning.matrix import Candidate, Matrix
from dil.planning.partitions import Partitions, partition
from dil.planning.unit_history import (
    BareHistory,
    Unit,
    UnitView,
    load_view,
    view_of_records,
    view_without_records,
)

if TYPE_CHECKING:
    from dil.model.closed_labels import ClosedLabels

ACTIVATION_NAME = "activation"


def plan(
    spec: PlanningSpec,
    *,
    now_ms: int,
    history: History | BareHistory,
    activation: Sequence[str] | None = None,
    explain: bool = False,
    past_runs: PastRuns | None = None,
    closed_labels: ClosedLabels | None = None,
) -> Plan:
    """Return the plan of a run; pure: no clock, no files, no state but ``history``.

    Candidates are walked partition by partition, and unit by unit in each partition. The cost grows
    with the units and the due work units, not with the history, unless ``explain`` is on. Each work
    unit is made when it is accessed; ``Plan.at_once`` makes all of them.

    Args:
        spec: The parsed planning properties.
        now_ms: The run's one value of now, epoch ms UTC.
        history: The records of earlier runs.
        activation: Activation rows as compact JSON, in order; required if ``spec.units`` is None.
        explain: Whether the plan also lists the candidates that are not due.
        past_runs: The instants for which runs planned. None if unknown: then the runs in the
            history's records count.
        closed_labels: The closed timelabels, None if the job never closes any.

    Raises:
        ConfigError: the watermark or the partition type cannot be understood.
        PlanningError: activation rows are missing or not allowed, the matrix must run whole but is
            larger than the limit, or too few work units are planned.
    """
    partitions = partition(spec, now_ms=now_ms)
    units = _units(spec, activation)
    rule = CutoffRule.of(spec)
    ignored = spec.backfill or spec.ignore_history
    labels, missed_rule, before_first = spec.timelabel, None, 0
    if labels is not None and labels.leaves_out and not (ignored or spec.once):
        from dil.planning.missed_periods import missed_periods  # few jobs leave anything out

        missed_rule = missed_periods(spec, labels, partitions, now_ms, past_runs).after_first_run(
            partial(history.lowest, units, partitions.starts)
            if isinstance(history, BareHistory)
            else history.lowest
        )
        before_first = (len(partitions) - len(missed_rule.partitions)) * len(units)
        partitions = missed_rule.partitions
    if ignored:
        views: Sequence[UnitView] = [view_without_records(partitions)] * len(units)
        _refuse_too_many(spec, len(partitions) * len(units))
    elif isinstance(history, BareHistory):
        found = history.known(units, partitions.starts)
        views = [view_of_records(known, partitions, rule) for known in found]
    else:
        views = [load_view(history, unit, partitions, rule, fully=explain) for unit in units]
    if spec.probed is not None:
        views = _without_probed(views, units, partitions, spec.probed)
    missed: Sequence[Candidate] = ()
    if missed_rule is not None:
        views, missed = missed_rule.skip_missed(views, rule.shift_ms)
    closed_partitions = None
    left_out: Sequence[Sequence[int]] = ()
    if (
        labels is not None
        and labels.closes
        and closed_labels is not None
        and closed_labels.stretches
    ):
        from dil.planning.timelabels import ClosedPartitions, timelabels  # few jobs close labels

        closed_partitions = ClosedPartitions(closed_labels, timelabels(labels, now_ms))
        views, left_out = closed_partitions.without_closed(views, partitions)
    fresh_reason = Reason.BACKFILL if spec.backfill else Reason.NEW
    matrix = Matrix(partitions, units, views, rule, fresh_reason, labels_of(spec, now_ms))
    choice = matrix.choose(spec.limit)
    _refuse_too_few(spec, len(choice.taken))
    due = matrix.due_count()
    planned_labels: PlannedClosedLabels | UnsetType = UNSET
    if closed_partitions is not None:
        taken = (each // len(units) for each in choice.taken)
        planned_labels = closed_partitions.planned(partitions, left_out, taken)
    is_full = spec.is_full or (spec.dynamic_full_load and (ignored or not history.has_succeeded()))
    return Plan(
        now=now_ms,
        zone=partitions.zone,
        # Whether the extract is full, not incremental (rule P31).
        full_extract=not spec.backfill and (spec.table_type is TableType.SNAPSHOT_ONLY or is_full),
        cutoff=matrix.overall(),
        work_units=OnDemand(
            _Chosen(matrix, choice.taken, now_ms, spec.pacing_s * 1000), range(len(choice.taken))
        ),
        skipped=len(matrix) - due + before_first,
        left=due - len(choice.taken),
        left_low=choice.left_low,
        grace_ms=spec.grace_ms,
        abstinent_ms=spec.abstinent_ms,
        skips=tuple(matrix.skips()) if explain else None,
        partitions=len(partitions),
        missed=tuple(matrix.work_unit(candidate, 0) for candidate in missed),
        before_first=before_first,
        books=planned_labels,
    )


def plan_everything(
    spec: PlanningSpec, *, now_ms: int, activation: Sequence[str] | None = None
) -> Plan:
    """Return the plan of all work units, as if no run had read any and a run took them all; pure.

    The arguments and errors are as for ``plan``.
    """
    every = replace(spec, ignore_history=True, backfill=False, limit=None)
    return plan(every, now_ms=now_ms, history=BareHistory({}), activation=activation)


def _without_probed(
    views: Sequence[UnitView],
    units: Sequence[Unit],
    partitions: Partitions,
    probed: ProbeRest,
) -> Sequence[UnitView]:
    """Return the views, without the probe's current partition in units that the probe has read."""
    keys = [unit.key for unit in units]
    if probed.through not in keys or probed.low not in partitions.starts:
        return views
    index, read = partitions.starts.index(probed.low), keys.index(probed.through) + 1
    end = partitions.ends[index]
    return [
        replace(view, regular=[each for each in view.regular if each != index])
        if number < read and view.highs.get(index, probed.low) >= end
        else view
        for number, view in enumerate(views)
    ]


def _units(spec: PlanningSpec, activation: Sequence[str] | None) -> tuple[Unit, ...]:
    """Return the units in order; of equal units, the first one counts (rule P14)."""
    if spec.units is None and activation is None:
        raise PlanningError(
            "the job takes its units from activation input, but no activation rows were given",
            "Pass the rows of the secondary input",
        )
    if spec.units is not None and activation:
        raise PlanningError(
            "activation rows were given, but the job's units come from its unit watermark",
            "Declare only one: activation input or a unit watermark",
        )
    if spec.units is None:
        texts, name = activation or (), ACTIVATION_NAME
    else:
        texts, name = spec.units, spec.unit_name
    return tuple(Unit.of(text, name, spec.datetime_name) for text in dict.fromkeys(texts))


def _refuse_too_many(spec: PlanningSpec, size: int) -> None:
    """Refuse a matrix that must run whole but exceeds the limit: a second run would not help."""
    if spec.limit is not None and size > spec.limit:
        kind = "backfill" if spec.backfill else "replacing the dataset"
        raise PlanningError(
            f"{kind} plans {size} work units at once, but ms.work.unit.parallelism.max allows "
            f"{spec.limit}",
            "Raise ms.work.unit.parallelism.max (-1 is no limit), or choose a smaller range or "
            "longer partitions",
        )


def _refuse_too_few(spec: PlanningSpec, size: int) -> None:
    if size < spec.min_units:
        raise PlanningError(
            f"{size} work units are planned, but ms.work.unit.min.units asks for {spec.min_units}",
            "Run again when more is due, or lower ms.work.unit.min.units",
        )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Makes the work unit at a position of the plan, with its start time from pacing."""

    matrix: Matrix
    taken: Sequence[Candidate]
    now_ms: int
    pacing_ms: int

    def __call__(self, position: int) -> WorkUnit:
        not_before = self.now_ms + position * self.pacing_ms if self.pacing_ms else 0
        return self.matrix.work_unit(self.taken[position], not_before)


def labels_of(spec: PlanningSpec, now_ms: int) -> Callable[[Interval], str] | None:
    """Return the function that gives a partition its timelabel; None for a job without labels."""
    if spec.timelabel is None:
        return None
    from dil.planning.timelabels import timelabels  # few jobs have labels

    return timelabels(spec.timelabel, now_ms)
