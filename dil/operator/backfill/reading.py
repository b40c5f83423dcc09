"""Reads a range again into a backfill's own folder; a killed reading can be resumed."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Collection
from dataclasses import replace

from dil.errors import ConfigError
from dil.model.destination import TableFormat
from dil.model.interval import Interval
from dil.model.job import Job
from dil.model.report import RunReport
from dil.model.work_unit import Plan
from dil.observe.progress import counted
from dil.operator import amendments
from dil.operator.amendments import FileDecision, Selection
from dil.operator.backfill.definition import (
    FORMAT,
    BackfillDefinition,
    backfill_job,
    configuration_changed,
    list_backfills,
    save_definition,
)
from dil.operator.backfill.status import Phase, read_status
from dil.planning.window import plan_window
from dil.publishing.destination import destination_for
from dil.publishing.run_commit import recorded_schema
from dil.run import plan_builder
from dil.run.job_run import run_job
from dil.run.lease import new_run_id
from dil.run.options import RunOptions
from dil.run.schedules import with_schedules
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.work_units.signatures import encoded
from dil.storage import filesystem_for

log = logging.getLogger(__name__)


def plan_backfill(
    job: Job, store: StateStore, window: Interval, units: Collection[str], *, now_ms: int
) -> Plan:
    """Return the plan of a backfill of a range; changes nothing.

    Args:
        job: The job.
        store: The job's store.
        window: The range, epoch ms UTC.
        units: The wanted units as compact JSON; all units if empty.
        now_ms: The now of planning, epoch ms UTC.

    Raises:
        ConfigError: the job cannot have backfills, or the range or a unit is not the job's.
        PlanningError: the units are not known.
        SourceError: the source cannot be asked for its units.
    """
    _refuse_unfit(job)
    job = with_schedules(job, store)
    listed = plan_builder.list_units_or_warn(job, now_ms, plan_builder.read_activation(job))
    return plan_window(
        job.planning,
        window,
        now_ms=now_ms,
        history=store.history(),
        activation=listed,
        only=units,
    )


def find_unpublished(
    job: Job, window: Interval, units: Collection[str], clock: Callable[[], int]
) -> BackfillDefinition | None:
    """Return the newest unpublished backfill of this range, these units and this configuration."""
    for each in list_backfills(job):
        if (each.low, each.high, each.units) != (window.low, window.high, tuple(sorted(units))):
            continue
        if each.digest in job.known_digests and read_status(job, each, clock).is_open:
            return each
        log.info("backfill %s of this range has another configuration, or is published", each.id)
    return None


def begin(
    job: Job,
    store: StateStore,
    plan: Plan,
    window: Interval,
    units: Collection[str],
    created: int,
) -> BackfillDefinition:
    """Define and save a backfill; ``created`` is the real time, epoch ms UTC."""
    head = store.head()
    definition = BackfillDefinition(
        format=FORMAT,
        id=new_run_id(created),
        job=job.name,
        created=created,
        low=window.low,
        high=window.high,
        units=tuple(sorted(units)),
        digest=job.digest,
        plan=plan,
        head="" if head is None else str(head["hash"]),
    )
    save_definition(definition, job.publishing)
    return definition


def read(
    job: Job,
    definition: BackfillDefinition,
    options: RunOptions,
    *,
    parallelism: int | None = None,
    pause_s: int | None = None,
) -> RunReport:
    """Read the unread work units of a backfill; resume a reading that crashed.

    Raises:
        ConfigError: the configuration changed since the backfill began, the backfill is published,
            or the job's destination would refuse its rows.
        LeaseHeldError: this backfill is being read now; a run of the job is no obstacle.
        DilError: as ``run_job``.
    """
    _refuse_unfit(job)
    if definition.digest not in job.known_digests:
        raise configuration_changed(definition)
    status = read_status(job, definition, options.clock)
    phase = status.phase
    if phase in (Phase.PUBLISHED, Phase.UNDONE):
        raise ConfigError.single(
            "ID",
            f"{definition.id} is {phase}, so no more rows are read into it",
            "Begin a new backfill of the range with --new.",
        )
    destination_for(job.publishing, filesystem_for(job.publishing.final_dir)).check()
    with open_store(job.state, job.name, clock=options.clock) as store:
        known = recorded_schema(store)
        job = with_schedules(job, store)
    own = backfill_job(job, definition.id, parallelism=parallelism, pause_s=pause_s)
    if status.lost:
        _forget(own, status.lost, options)
    report = run_job(own, replace(options, plan=definition.plan, known_schema=known))
    after = read_status(job, definition, options.clock)
    place = f"{shlex.quote(job.path)} {definition.id}"
    if after.phase is Phase.COMPLETE:
        note = (
            f"backfill {definition.id} is complete and not published: `dil backfill diff {place}` "
            f"compares it, `dil backfill publish {place}` publishes it"
        )
    else:
        note = (
            f"backfill {definition.id} has {len(after.done):,} of "
            f"{len(definition.plan.work_units):,} work units; `dil backfill resume {place}` "
            "continues"
        )
    return replace(report, job=job.name, is_backfill=True, notes=(*report.notes, note))


def _forget(own: Job, lost: Collection[str], options: RunOptions) -> None:
    """Make work units of a backfill due again, because some of their files are gone."""
    log.warning("%s of the backfill lost files: read again", counted(len(lost), "work unit"))
    selection = Selection(signatures=frozenset(map(encoded, lost)))
    with (
        open_store(own.state, own.name, clock=options.clock) as store,
        amendments.open_session(
            own, store, "forget", now_ms=options.now_ms, clock=options.clock
        ) as session,
    ):
        preview = amendments.propose_forget(session, selection, FileDecision.KEEP)
        amendments.apply(session, preview, "files are gone")


def _refuse_unfit(job: Job) -> None:
    """Refuse jobs whose rows cannot be read into another folder, or cannot replace rows.

    Raises:
        ConfigError: a property of the job, which the error names, excludes backfills.
    """
    spec = job.publishing
    is_apart = spec.table.format is TableFormat.ICEBERG and spec.table.partition_fields
    for key, is_unfit, what, fix in (
        (
            "state.store.enabled",
            not job.state.enabled,
            "is off, so it is unknown which work units runs have read",
            "Run the job with ms.backfill=true and a range of its own.",
        ),
        (
            spec.place_key,
            not spec.keeps_files,
            "is set, but rows in a database cannot be distinguished by work unit",
            "Forget the work units with `dil state forget`, and run the job.",
        ),
        (
            "ms.writer.class",
            job.writing.own is not None,
            "is set, and files of the job's own writer class cannot be read back",
            "Forget the work units with `dil state forget`, and run the job.",
        ),
        (
            "ms.extractor.target.file.name",
            bool(job.writing.file_name),
            "is set: a dumped file that is read again replaces the file of the same name",
            "Forget the work units with `dil state forget`, and run the job.",
        ),
        (
            "ms.secondary.input",
            job.has_input("payload"),
            "has a payload: the job sends rows, and a backfill would send them again",
            "Send again with a job of its own.",
        ),
        (
            "ms.table.partition.fields",
            is_apart,
            "is set, and an Iceberg table needs these columns in its files, which a backfill keeps "
            "as plain files without them",
            "Run the job with ms.backfill=true and a range of its own.",
        ),
    ):
        if is_unfit:
            raise ConfigError.single(key, what, fix, job.properties.origin(key))
