"""Claim: the job becomes an owner of its dataset, and the run and its plan are recorded."""

from __future__ import annotations

from dil.model.dataset import Owner, PublishedFile, RunRecord
from dil.model.destination import TableFormat
from dil.model.job import Job
from dil.publishing.destination import connected, destination_for
from dil.publishing.layout import dataset_dir
from dil.publishing.lost_state import (
    is_newest_state,
    refuse_lost_state,
    refuse_older_dataset,
    refuse_older_state,
    refuse_other_place,
    refuse_unlisted_rows,
    reread_options,
    set_back,
)
from dil.publishing.owner import claim as claim_dataset
from dil.publishing.owner import refuse_other_owners
from dil.publishing.rewritten import refuse_rewritten
from dil.publishing.shared_files import refuse_window_replace
from dil.publishing.staged import write_plan
from dil.run import plan_checks, preflight
from dil.run.active_run import ActiveRun
from dil.run.options import RunOptions
from dil.run.plan import PlannedRun
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.storage import Filesystem, filesystem_for


def claim(run: ActiveRun, planned: PlannedRun) -> tuple[str, ...]:
    """Record the job as an owner of its dataset, and the run; return notes.

    If nothing is due, the dataset is only checked: a folder that is still empty of rows may hold
    files of others, such as those from which a flow begins.

    Raises:
        ConfigError: the dataset belongs to another job, cannot take rows of this form, or does not
            have the rows that the job published earlier.
        StateError: state and dataset are not of the same age, or the state was lost.
        WriteError: the dataset's folder, or the staging folder, cannot be written.
    """
    job = run.job
    with connected(run.destination):
        notes, live = _claim_destination(run, planned)
    if not planned.plan.work_units:
        return notes
    plan_checks.warn_of_lost_state(job, run.store, live, is_first=planned.is_first)
    run.store.begin_run(
        run.lease,
        RunRecord(
            run_id=run.run_id,
            job=job.name,
            started=run.options.clock(),
            now=planned.plan.now,
            policy=job.running.commit_policy.value,
            digest=job.digest,
            staging_dir=run.staging,
            status="running",
        ),
    )
    write_plan(run.filesystem, run.staging, planned.staged_plan)
    return notes


def _claim_destination(
    run: ActiveRun, planned: PlannedRun
) -> tuple[tuple[str, ...], tuple[PublishedFile, ...]]:
    """Check the destination, and record the job as its owner; return notes and the live files.

    If no work unit is due, the job is not recorded, and the live files are not read.
    """
    job = run.job
    spec = job.publishing
    notes = _check_state(job, run.store, run.filesystem, run.destination)
    is_due = bool(planned.plan.work_units)  # libraries of tables take their time to load
    live = _checked_destination(run, planned) if is_due else ()
    if is_due and not notes:
        notes = set_back(job, run.store, run.destination, live)
    owner = _owner(job)
    if spec.warehouse is None:  # a warehouse has its own records of owners
        dataset = dataset_dir(spec)

        def is_newest() -> bool:
            return is_newest_state(job.name, run.store, spec, run.destination)

        if is_due:
            claim_dataset(
                run.filesystem,
                dataset,
                owner,
                dir_mode=spec.dir_mode,
                group=spec.group,
                is_newest_state=is_newest,
            )
        else:
            refuse_other_owners(run.filesystem, dataset, owner, is_newest)
    if is_due:
        run.destination.claim(owner)
        # Checked last: if the state is not the owner's, that is the error to report.
        if not run.options.accept_new_signatures:
            _refuse_lost_state(job, run.store, run.destination)
    return notes, live


def check_claim(job: Job, options: RunOptions) -> None:
    """Check a dataset and its state as ``claim`` does, without recording anything.

    Raises:
        ConfigError: the dataset belongs to another job, or does not have the rows that the job
            published earlier; or the watermark has a new shape, for which state has no record.
        StateError: state and dataset are not of the same age, or the state was lost.
    """
    spec, filesystem = job.publishing, filesystem_for(job.publishing.final_dir)
    # A check of other destinations could make a file, or would need a catalog.
    is_file_based = spec.keeps_files and spec.table.format is not TableFormat.ICEBERG
    with open_store(job.state, job.name, clock=options.clock) as store:
        problem = plan_checks.changed_shape(job, store, options.now_ms)
        if problem is not None:
            raise problem
        is_newest = False
        destination = destination_for(spec, filesystem) if is_file_based else None
        if destination is not None:
            _check_state(job, store, filesystem, destination)
            is_newest = is_newest_state(job.name, store, spec, destination)
        if spec.warehouse is None:
            dataset = dataset_dir(spec)
            refuse_other_owners(filesystem, dataset, _owner(job), lambda: is_newest)
        if destination is not None:
            _refuse_lost_state(job, store, destination)


def _check_state(
    job: Job, store: StateStore, filesystem: Filesystem, destination: Destination
) -> tuple[str, ...]:
    """Refuse a state and a dataset that are not of the same age; return notes."""
    if not job.state.enabled:
        return ()
    refuse_other_place(job, store, filesystem)
    last = refuse_older_state(
        job.name, store, job.publishing, destination, options=reread_options(job)
    )
    return refuse_older_dataset(job, store, destination, last)


def _refuse_lost_state(job: Job, store: StateStore, destination: Destination) -> None:
    # A backfill in the job's own run reads its range again, whatever was published.
    if job.state.enabled and not job.planning.backfill:
        refuse_lost_state(job.name, store, job.publishing, destination, options=reread_options(job))


def _owner(job: Job) -> Owner:
    return Owner(job.name, job.state.place, job.publishing.mode)


def _checked_destination(run: ActiveRun, planned: PlannedRun) -> tuple[PublishedFile, ...]:
    """Refuse, before a row is read, a run that could not publish; return the live files."""
    job = run.job
    run.destination.check()
    live = run.destination.live()
    preflight.require_catalog(job, live)
    refuse_window_replace(job.publishing, live)
    signatures = (unit.signature for unit in planned.plan.work_units)
    spec, filesystem = job.publishing, run.filesystem
    refuse_rewritten(job.name, run.store, spec, filesystem, live, signatures)
    refuse_unlisted_rows(job, run.store, filesystem, live)
    if not run.options.accept_new_signatures:
        plan_checks.refuse_pruned_units(job, run.store, planned.plan, live)
    return live
