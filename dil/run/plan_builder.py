"""Plans a job from its configuration, its secondary input and its state."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec import structs

from dil import planning
from dil.errors import ConfigError
from dil.model.grace import GraceMode
from dil.model.history import History, PastRuns, record_of
from dil.model.job import Job
from dil.model.json import compact
from dil.model.work_unit import Plan
from dil.planning import SavedPlan
from dil.planning.grace import plan_by_measure
from dil.planning.plan_file import decode_plan
from dil.run import plan_checks
from dil.run.closed_labels import load_closed_labels
from dil.run.schedules import with_schedules
from dil.sections.source import FilesSection
from dil.spi.connector import Connector
from dil.spi.plugin_failures import translated_plugin_errors
from dil.spi.registry import load
from dil.spi.state_store import StateStore
from dil.state import open_store

log = logging.getLogger(__name__)

_LOGIN = re.compile(r"\A([^/]*//)[^/]*@")


def plan_job(job: Job, *, now_ms: int, explain: bool = False) -> SavedPlan:
    """Return the plan of a run at ``now_ms`` (epoch ms UTC); reads state, changes nothing.

    If ``explain`` is true, the plan includes work units that are not due, each with the reason.
    The plan can be written to a file, and a run can take it from there.
    """
    with open_store(job.state, job.name, clock=lambda: now_ms) as store:
        return plan_with(job, store, now_ms=now_ms, explain=explain)


def plan_with(job: Job, store: StateStore, *, now_ms: int, explain: bool = False) -> SavedPlan:
    """Return the plan as ``plan_job`` does, with an open store."""
    job = with_schedules(job, store)
    problem = plan_checks.changed_shape(job, store, now_ms)
    if problem is not None:
        for found in problem.problems:
            log.warning("a run would refuse this plan: %s %s. %s", found.key, found.what, found.fix)
    # The head is read before the plan: a head that is too old only refuses a good plan.
    head = store.head()
    units = list_units_or_warn(job, now_ms, read_activation(job))
    return SavedPlan(
        job=job.name,
        digest=job.digest,
        backfill=job.planning.backfill,
        head=None if head is None else str(head["hash"]),
        plan=plan_due_units(job, store, now_ms, units, explain=explain),
    )


def plan_due_units(
    job: Job,
    store: StateStore,
    now_ms: int,
    units: Sequence[str] | None,
    *,
    explain: bool = False,
) -> Plan:
    """Return the work units due at ``now_ms`` (epoch ms UTC) for units of ``list_units``."""
    history = store.history() if job.state.enabled else planning.BareHistory({})
    planned = partial(
        planning.plan,
        now_ms=now_ms,
        history=history,
        activation=units,
        explain=explain,
        past_runs=_past_runs(job, store),
        closed_labels=load_closed_labels(job, store),
    )
    if job.planning.grace.mode is GraceMode.FIXED:
        return planned(job.planning).at_once()
    from dil.run.grace_measure import grace_measure

    return plan_by_measure(job.planning, grace_measure(job, store), planned).at_once()


def _past_runs(job: Job, store: StateStore) -> PastRuns | None:
    """Return the instants that runs planned for; None if they do not matter or are not kept."""
    labels = job.planning.timelabel
    if labels is None or not labels.leaves_out or not job.state.enabled:
        return None
    still_open: list[int] = []
    for run in store.runs():
        if run.committed:
            return PastRuns(run.now, tuple(still_open))
        if run.is_open:
            still_open.append(run.now)
    return PastRuns(None, tuple(still_open))


def list_units_or_warn(
    job: Job, now_ms: int, activation: Sequence[str] | None = None
) -> Sequence[str] | None:
    """Return the units as ``list_units`` does; warn if the source lists none.

    Raises:
        SourceError: the source cannot be asked.
    """
    found = list_units(job, now_ms, activation)
    if job.planning.of_source and not found:
        log.warning("%s", nothing_listed(job))
    return found


def list_units(
    job: Job, now_ms: int, activation: Sequence[str] | None = None
) -> Sequence[str] | None:
    """Return the job's units as compact JSON; ask the source if it lists them.

    ``activation`` are the units of the job's activation input, which others have.

    Raises:
        SourceError: the source cannot be asked.
    """
    if not job.planning.of_source:
        return activation
    connector: type[Connector] = load(job.source.connector)
    with translated_plugin_errors(job.source.connector.qualname):
        return tuple(compact(unit) for unit in connector.units(job, now_ms))


def nothing_listed(job: Job) -> str:
    """Return a note for a source that lists no units; it names the place and the pattern."""
    uri, pattern = job.source.uri, job.properties.section(FilesSection).pattern
    place = "ms.source.uri" if uri.startswith("ENC(") else _LOGIN.sub(r"\1", uri)
    units = "files" if job.planning.once else "units"
    matching = ""
    if job.planning.once and pattern != ".*":
        matching = f" that match ms.source.files.pattern={pattern}"
    return (
        f"{place} was listed and has 0 {units} to read{matching}. If that is a failure, "
        "ms.work.unit.min.units=1 makes each run that finds nothing new an error"
    )


def accept_plan(job: Job, store: StateStore, now_ms: int, saved: SavedPlan | Plan) -> Plan:
    """Return the part of the caller's plan that a run at ``now_ms`` (epoch ms UTC) has to run.

    A plan from a file runs unchanged, paced from now on; it is refused if state has changed since.
    A bare plan is never too old: of its work units, only the unfinished ones run.

    Raises:
        ConfigError: the plan was made for another job or configuration.
        PlanningError: state has changed since the plan was made.
    """
    if isinstance(saved, Plan):
        return _not_done(job, store.history(), now_ms, saved)
    plan_checks.refuse_stale_plan(job, saved, store.head())
    late = now_ms - saved.plan.now
    work_units = tuple(
        structs.replace(unit, not_before=unit.not_before + late) if unit.not_before else unit
        for unit in saved.plan.work_units
    )
    return replace(saved.plan, work_units=work_units)


def _not_done(job: Job, history: History, now_ms: int, whole: Plan) -> Plan:
    """Return the unfinished work units of a plan, with start times from ``now_ms`` on."""
    left = []
    for unit in whole.work_units:
        record = record_of(unit, history)
        if record is None or record.failed or (record.high or 0) < unit.high:
            left.append(unit)
    pacing = job.planning.pacing_s * 1000
    work_units = tuple(
        structs.replace(unit, not_before=now_ms + position * pacing if pacing else 0)
        for position, unit in enumerate(left)
    )
    done = len(whole.work_units) - len(work_units)
    return replace(whole, work_units=work_units, skipped=whole.skipped + done)


def read_activation(job: Job) -> tuple[str, ...] | None:
    """Return the units of the job's activation input; None if it has no such input."""
    if not job.secondary.inputs:
        return None
    # Imported here: a job without secondary input does not need its readers.
    from dil.run.inputs import read_units

    return read_units(job)


def read_plan(path: Path) -> SavedPlan:
    """Return the plan that ``dil plan --out`` wrote to a file.

    Raises:
        ConfigError: the file cannot be read, or holds no plan.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError.single(
            "--plan",
            f'"{path}" cannot be read: {error.strerror}',
            "Make the file first: dil plan JOB.conf --out FILE",
        ) from None
    return decode_plan(content, str(path))
