"""Claim: the dataset becomes this job's, and the run with its plan is on record."""

from __future__ import annotations

from dil import publishing
from dil.model.dataset import RunRecord
from dil.run import plan_checks, preflight
from dil.run.active_run import ActiveRun
from dil.run.plan import PlannedRun


def claim(run: ActiveRun, planned: PlannedRun) -> None:
    """Enter the job as an owner of its dataset; where something is due, record the run.

    Raises:
        ConfigError: the dataset belongs to another job, does not take rows as they would be, or is
            another one than the rows so far are in.
        StateError: the state is older than the dataset.
        WriteError: the dataset's folder, or what is staged, cannot be written.
    """
    job = run.job
    if job.state.enabled:
        spec = job.publishing
        publishing.refuse_other_place(job, run.store, run.files)
        publishing.refuse_older_state(job.name, run.store, spec, run.files, run.destination)
    if planned.plan.work_units:  # libraries of tables take their time to load
        _check_destination(run, planned)
    owner = publishing.Owner(job.name, job.state.place, job.publishing.mode)
    dataset = publishing.dataset_dir(job.publishing)
    publishing.claim(run.files, dataset, owner, dir_mode=job.publishing.dir_mode)
    if not planned.plan.work_units:
        return
    if isinstance(run.destination, publishing.OwnedDestination):
        run.destination.claim(owner)
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
    publishing.write_plan(run.files, run.staging, planned.staged_plan)


def _check_destination(run: ActiveRun, planned: PlannedRun) -> None:
    """Refuse before a row is read what could not be published."""
    job = run.job
    run.destination.check()
    live = run.destination.live()
    preflight.require_catalog(job, live)
    publishing.refuse_window_replace(job.publishing, live)
    plan_checks.warn_of_lost_state(job, run.store, planned.history, live)
