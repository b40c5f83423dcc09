"""The runs of a stream: one micro-batch after the other under one lease, each with one commit.

One plan serves many micro-batches: together they read the work units that were due when the plan
was made, and no more. The caller decides the order and the time of each micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from dil.errors import DilError
from dil.model.job import CommitPolicy, Job, QuerySpec
from dil.model.report import RunReport, RunStatus
from dil.model.stream import STREAM, Look, MicroBatch, StreamState
from dil.model.work_unit import Plan
from dil.observe import run_report
from dil.planning import SavedPlan
from dil.publishing.layout import run_staging_dir
from dil.run import plan_builder, preflight
from dil.run.aborted_run import record_early_end
from dil.run.active_run import ActiveRun, active_run
from dil.run.claim import claim
from dil.run.commit import sweep
from dil.run.event_time import newest_success
from dil.run.inputs import read_units
from dil.run.job_run import conclude, execute_and_publish
from dil.run.lease import new_run_id
from dil.run.options import RunOptions
from dil.run.plan import plan, planned_query, refuse_new_shape
from dil.run.queries.slices import PlannedQuery, as_plan, heads, plan_slices, taken_text
from dil.run.recover import Recovered, recover
from dil.run.report import report_nothing_due, summary


class MicroBatches:
    """The micro-batches of one job; ``run`` holds the lease that all of them share."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self._newest: int | None = None
        self._recovered = Recovered()
        self._query: PlannedQuery | None = None
        # A stream that ends when it has caught up takes no later blocks of inputs than these.
        self._until: Mapping[str, int] | None = None

    def look(self, now_ms: int) -> Look:
        """Finish the publish of an earlier micro-batch; return all work that is due at ``now_ms``.

        For a derived dataset, the next slice of its inputs is due.

        Raises:
            ConfigError: the watermark has a new shape, for which state has no record.
            DilError: planning, the state store or the earlier publish failed.
        """
        run = replace(self._run, options=replace(self._run.options, now_ms=now_ms))
        recovered = self._recovered = recover(run)
        if run.job.query is not None:
            return self._next_slice(run, run.job.query)
        refuse_new_shape(run)
        # Without a limit: the size of a micro-batch is decided later.
        job = replace(run.job, planning=replace(run.job.planning, limit=None))
        self._newest = None  # the new plan's cutoff tells the newest success
        units = plan_builder.list_units(job, now_ms, read_units(job))
        found = plan_builder.plan_due_units(job, run.store, now_ms, units)
        why = ""
        if not found.work_units:
            sweep(run)
            why = run_report.nothing_due(found, run.job)
        return Look(found, recovered.runs, recovered.notes, why_nothing=why)

    def _next_slice(self, run: ActiveRun, spec: QuerySpec) -> Look:
        clock, stream = run.options.clock, run.job.stream
        if self._until is None and not (stream is not None and stream.is_service):
            self._until = heads(spec, clock)
        self._query = plan_slices(run.job, spec, clock, self._until)
        due = as_plan(run.job, spec, self._query, run.options.now_ms)
        why = ""
        if not due.work_units:
            sweep(run)
            why = run_report.nothing_new(self._query.waits)
        takes = taken_text(self._query)
        return Look(due, self._recovered.runs, self._recovered.notes, takes, why)

    def state(self) -> StreamState | None:
        """Return the newest committed micro-batch, None if there is none."""
        return StreamState.of(self._run.store.checkpoint(STREAM))

    def run(self, due: Plan, batch: MicroBatch, *, is_alone: bool = False) -> RunReport:
        """Run the work units of a plan as one micro-batch; return its report, also if it failed.

        If ``is_alone`` is true, the plan has one work unit. Its failure is recorded under any
        commit policy, so that other work units can run without it.

        Raises:
            ConfigError: the configuration does not fit the dataset or its state.
            DilError: the micro-batch failed before its work units began.
        """
        started = time.monotonic()
        run = self._begun(due, batch, is_alone=is_alone)
        try:
            if run.job.query is None or self._query is None:
                planned = plan(run)
            else:
                planned = planned_query(run, run.job.query, self._query)
            notes = claim(run, planned)
        except (DilError, KeyboardInterrupt) as error:
            record_early_end(run, error, time.monotonic() - started)
            raise
        if not planned.plan.work_units:
            idle = report_nothing_due(run, planned)
            return replace(idle, notes=(*notes, *idle.notes))
        report = execute_and_publish(run, planned)
        if run.job.events is not None:
            # The newest success moved the watermark that judges the next micro-batch.
            high = newest_success(run.job, run.store.history(), planned.plan.work_units)
            if high is not None:
                self._newest = high if self._newest is None else max(self._newest, high)
        # The recovered runs are named in the next report, and in no later one.
        recovered, self._recovered = self._recovered, Recovered()
        notes = (*recovered.notes, *notes, *report.notes)
        report = replace(report, batch=batch, recovered=recovered.runs, notes=notes)
        return conclude(run, report, started)

    def summary(self, status: RunStatus) -> RunReport:
        """Return the report of a stream before its first micro-batch."""
        return summary(self._run, status)

    def reset(self) -> None:
        """Stop the Spark session, in case it made a micro-batch fail.

        The next micro-batch starts a new session.
        """
        self._run.executors.close()

    def _begun(self, due: Plan, batch: MicroBatch, *, is_alone: bool) -> ActiveRun:
        whole = self._run
        job, run_id = whole.job, new_run_id(whole.options.clock())
        head = whole.store.head()
        # All due units, also those read before: under the lease no other run changes the chain.
        saved = SavedPlan(
            job=job.name,
            digest=job.digest,
            backfill=job.planning.backfill,
            head=None if head is None else str(head["hash"]),
            plan=due,
        )
        if is_alone:
            running = replace(job.running, commit_policy=CommitPolicy.SUCCESSFUL)
            job = replace(job, running=running)
        return replace(
            whole,
            job=job,
            options=replace(whole.options, now_ms=due.now, plan=saved),
            run_id=run_id,
            staging=run_staging_dir(job.publishing, job.name, run_id),
            received=[],
            batch=batch,
            newest_high=self._newest,
        )


@contextmanager
def micro_batches(job: Job, options: RunOptions, run_id: str) -> Iterator[MicroBatches]:
    """Hold the job's lease for all micro-batches of a stream.

    Raises:
        LeaseHeldError: another run of the job is under way.
        ConfigError: the job's state would be lost with this machine.
        WriteError: the job's folders cannot be written.
    """
    preflight.refuse_lost_state(job, options.environ)
    preflight.refuse_unfit_places(job)
    preflight.make_final_dir(job)
    with active_run(job, options, run_id) as run:
        yield MicroBatches(run)
