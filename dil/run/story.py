"""The story of a run: load, lease, recover, plan, execute, publish, commit, report.

The caller loads the job; everything after that is told here, in order. Nothing below imports
Spark or Arrow before there is work to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from dil import planning, publishing
from dil.coordination import in_turn
from dil.errors import ConfigError, DilError, LeaseLostError, RunInterruptedError
from dil.execution.executor import Execution, hopeless
from dil.execution.stages import Executors, Stages
from dil.extraction.secondary import read_secondary_inputs
from dil.model.dataset import Lease, RunRecord
from dil.model.job import CommitPolicy, Job, PublishMode
from dil.model.report import ReportedFailure, RunReport, RunStatus, SchemaDrift, UnitCounts
from dil.model.secondary import SecondaryRows
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import Plan, WorkUnit
from dil.observe import run_report
from dil.observe.answers import answer_notes
from dil.observe.drift import drift, rows_aside
from dil.observe.progress import counted
from dil.publishing import Finished, layout, start_marker
from dil.publishing.sent_results import SentResults
from dil.reshaping import Reshaping, reshape
from dil.run import admission, plans, readiness
from dil.run.options import RunOptions
from dil.run.registration import registered
from dil.run.runs import failed_and_gone, new_run_id, take_lease
from dil.spi.state_store import StateStore
from dil.state import LeaseKeeper, open_store
from dil.storage import filesystem_for
from dil.task.secondary_access import access

log = logging.getLogger(__name__)


def run_job(job: Job, options: RunOptions) -> RunReport:
    """Run a job once and tell how it went.

    Raises:
        LeaseHeldError: another run of the job is under way.
        ConfigError: state shows that this configuration would double rows.
        DilError: planning, state or publishing failed; what is staged is kept for the next run.
    """
    started = time.monotonic()
    run_id = options.run_id or new_run_id(options.clock())
    if job.running.disabled:
        return RunReport(
            job.name, run_id, RunStatus.NOTHING_DUE, UnitCounts(), notes=("job.disabled is true",)
        )
    admission.refuse_lost_state(job, options.environ)
    readiness.make_ready(job)
    with open_store(job.state, job.name, clock=options.clock) as store:
        lease = take_lease(store, run_id, job.running.lease_s, options.wait_lease_s)
        with LeaseKeeper(store, lease, job.running.lease_s) as keeper:
            run = _Run(job, options, run_id, store, lease, keeper)
            with closing(run.executors):
                report = registered(job, store, run.tell(), options.environ, options.cache)
    return replace(report, seconds=round(time.monotonic() - started, 3))


class _Run:
    """One run under its lease."""

    def __init__(
        self,
        job: Job,
        options: RunOptions,
        run_id: str,
        store: StateStore,
        lease: Lease,
        keeper: LeaseKeeper,
    ) -> None:
        self._job = job
        self._options = options
        self._run_id = run_id
        self._store = store
        self._lease = lease
        self._keeper = keeper
        self._secondary = SecondaryRows()
        self._rests: tuple[WorkUnit, ...] = ()
        self._known_schema = ""
        self._listed: tuple[str, ...] = ()
        self._gone: tuple[str, ...] = ()
        self._unchanged: tuple[str, ...] = ()
        self._file_notes: tuple[str, ...] = ()
        self._misfits: Mapping[str, TaskReport] = {}
        self.executors = Executors(
            job,
            options.environ,
            options.cache,
            options.executor,
            spark=options.spark,
            is_embedded=options.is_embedded,
        )
        self._files = filesystem_for(job.publishing.final_dir)
        self._destination = publishing.destination_for(job.publishing, self._files)
        self._staging = publishing.run_staging_dir(job.publishing, job.name, run_id)

    def tell(self) -> RunReport:
        """Recover, plan, execute, publish and commit; say how it went."""
        recovered = self._recover()
        self._secondary = read_secondary_inputs(
            self._job.properties, access(self._job), self._options.sleep
        )
        plan = self._planned()
        if not plan.work_units:
            self._sweep()
            notes = (
                run_report.nothing_due(plan, self._job),
                *run_report.left_out(plan, is_recorded=False),
                *run_report.failed_and_gone(self._gone),
                *self._secondary.notes,
            )
            return self._report(RunStatus.NOTHING_DUE, recovered=recovered, notes=notes)
        self._begin(plan)
        self._known_schema = publishing.recorded_schema(self._store) or self._options.known_schema
        adopted, fresh = self._adopt(plan)
        reports: tuple[TaskReport, ...] = adopted
        try:
            execution = self._execute(plan, fresh)
            reports = publishing.without_clashes((*adopted, *execution.reports))
            reports = publishing.without_seizures(self._job, reports, self._listed, self._files)
            report = self._conclude(plan, reports, execution.stopped)
        except (RunInterruptedError, KeyboardInterrupt) as signal:
            report = self._interrupted(plan, adopted, signal)
        except DilError as error:
            log.debug("the run failed", exc_info=error)
            report = self._failed(plan, reports, error)
        return replace(report, recovered=recovered)

    # Recover

    def _recover(self) -> tuple[str, ...]:
        """Finish what earlier runs decided; publish what a crashed ``successful`` run completed.

        Of several crashed runs only the newest with results: its commit supersedes the others.
        """
        spec = self._job.publishing
        recovered = []
        pending = publishing.finish_pending(self._store, self._lease, spec, self._files)
        if pending is not None:
            recovered.append(pending.run_id)
        markers = layout.sending_dir(spec, self._job.name)
        start_marker.forget_committed(self._files, markers, self._store.unfinished_runs())
        for run in reversed(self._store.unfinished_runs()):
            if not admission.publishes_its_successes(run, self._job):
                continue
            results = publishing.staged_work(self._files, run)
            if not results:
                continue
            log.info("run %s completed %s", run.run_id, counted(len(results), "work unit"))
            plan = publishing.read_plan(self._files, run.staging_dir)
            owed = publishing.owed(
                plan,
                {each.work_unit.signature for each in results},
                "the run ended before this work unit did",
            )
            finished = publishing.finished(results, plan)
            full = results[0].full_extract
            self._publish(run.run_id, run.now, finished, owed, full=full)
            return (*recovered, run.run_id)
        return tuple(recovered)

    # Plan

    def _planned(self) -> Plan:
        """Plan against state, once it is sure that the plan will not double rows."""
        self._check_shape()
        history = self._store.history()
        saved, now = self._options.plan, self._options.now_ms
        if saved is None:
            units = plans.units_of(self._job, now, self._secondary.activation)
            plan = plans.due(self._job, self._store, now, units)
            self._listed = tuple(units or ()) if self._job.planning.once else ()
            self._gone = failed_and_gone(self._job, self._store, plan, units)
        else:
            plan = plans.approved(self._job, self._store, now, saved)
        dataset = publishing.dataset_dir(self._job.publishing)
        admission.refuse_shorter_windows(self._job, plan, history)
        if self._job.state.enabled:
            self._rests = planning.overtaken(self._job.planning, plan, history)
        if plan.work_units:  # libraries of tables take their time to load
            self._destination.check()
            live = self._destination.live()
            readiness.require_catalog(self._job, live)
            publishing.refuse_window_replace(self._job.publishing, live)
            admission.warn_of_lost_state(self._job, self._store, history, live)
        owner = publishing.Owner(self._job.name, self._job.state.place, self._job.publishing.mode)
        publishing.claim(self._files, dataset, owner, dir_mode=self._job.publishing.dir_mode)
        if plan.work_units and isinstance(self._destination, publishing.OwnedDestination):
            self._destination.claim(owner)
        return plan

    def _check_shape(self) -> None:
        """Refuse a watermark whose signatures no record has, unless that is wanted."""
        job, store = self._job, self._store
        problem = admission.changed_shape(job, store)
        if problem is not None and not self._options.accept_new_signatures:
            raise problem
        shape = planning.shape(job.planning)
        if job.state.enabled and not job.planning.backfill and shape != store.recorded_shape():
            # Before planning: under a new shape no coverage counts.
            store.record_shape(self._lease, shape)

    def _begin(self, plan: Plan) -> None:
        self._store.begin_run(
            self._lease,
            RunRecord(
                run_id=self._run_id,
                job=self._job.name,
                started=self._options.clock(),
                now=plan.now,
                policy=self._job.running.commit_policy.value,
                digest=self._job.digest,
                staging_dir=self._staging,
                status="running",
            ),
        )
        publishing.write_plan(self._files, self._staging, self._staged_plan(plan))

    def _staged_plan(self, plan: Plan) -> publishing.StagedPlan:
        return publishing.StagedPlan(
            tuple(plan.work_units), plan.left_low, self._rests, plan.missed
        )

    # Execute

    def _adopt(self, plan: Plan) -> tuple[tuple[TaskReport, ...], tuple[WorkUnit, ...]]:
        """Split the plan into what earlier runs already staged and what must be extracted."""
        # Imported here: most runs find nothing due.
        from dil.task.sending import must_not_repeat

        is_sent = must_not_repeat(self._job)
        if self._job.publishing.is_of_one_time and not is_sent:
            return (), tuple(plan.work_units)
        runs = [run for run in self._store.unfinished_runs() if run.is_open]
        staged = [each for run in runs for each in publishing.staged_work(self._files, run)]
        pool = publishing.Adoptable(staged, self._job.known_digests, self._stand_in(plan))
        sent = SentResults(staged, self._job.known_digests) if is_sent else None
        adopted, fresh = [], []
        for unit in plan.work_units:
            report = pool.take(unit) if sent is None else sent.take(unit)
            if report is None:
                fresh.append(unit)
            else:
                adopted.append(report)
        return tuple(adopted), tuple(fresh)

    def _execute(self, plan: Plan, units: Sequence[WorkUnit]) -> Execution:
        """Run the work units as tasks; no session is started for none."""
        if not units:
            return Execution(())
        run = RunContext(
            job=self._job.for_tasks(),
            run_id=self._run_id,
            run_now=plan.now,
            full_extract=plan.full_extract,
            staging_dir=self._staging,
            secondary=self._secondary.variables,
            log_level=self._options.log_level,
            log_json=self._options.log_json,
            resume_from=self._resumable(plan, units),
            known_schema=self._known_schema,
        )
        executor = self.executors.for_units(len(units))
        self._options.progress.start(len(units))
        try:
            return executor.execute(run, in_turn(self._job, units), self._watch(len(units)))
        finally:
            self._options.progress.finish()

    def _resumable(self, plan: Plan, units: Sequence[WorkUnit]) -> dict[str, str]:
        """Return by signature where earlier runs stopped inside work units that are to be read."""
        if self._job.running.page_commit_s is None:
            return {}
        runs = [
            run
            for run in self._store.unfinished_runs()
            if run.run_id != self._run_id and run.digest in self._job.known_digests
        ]
        return publishing.resumable(self._files, runs, units, self._stand_in(plan))

    def _stand_in(self, plan: Plan) -> publishing.StandIn:
        """Return what may stand for work done now; what was sent stays sent, however old it is."""
        if self._job.has_input("payload"):
            return publishing.StandIn(grace_ms=0, due_after=0)
        return publishing.StandIn.of(plan)

    def _watch(self, units: int) -> Callable[[Sequence[TaskReport]], Failure | None]:
        threads = self._job.running.threads

        def watch(reports: Sequence[TaskReport]) -> Failure | None:
            self._options.progress.update(
                done=len(reports),
                failed=sum(report.failure is not None for report in reports),
                running=min(threads, units - len(reports)),
                rows=sum(report.rows for report in reports),
                bytes=sum(report.bytes for report in reports),
            )
            if self._keeper.lost:
                return Failure(LeaseLostError.code, "another run took the lease over")
            return hopeless(reports)

        return watch

    # Publish, commit, report

    def _conclude(
        self, plan: Plan, reports: Sequence[TaskReport], stopped: Failure | None
    ) -> RunReport:
        """Publish what the commit policy allows, record it, and report."""
        by_signature = {report.signature: report for report in reports}
        finished = tuple(
            Finished(unit, by_signature[unit.signature])
            for unit in plan.work_units
            if unit.signature in by_signature
        )
        owed = publishing.owed(
            self._staged_plan(plan),
            by_signature,
            "the run was stopped before this work unit began",
        )
        status = self._verdict(plan, reports)
        usual = self._store.last_rows()
        files: tuple[str, ...] = ()
        is_due = self._options.plan is None
        if self._may_publish(status):
            files = self._publish(
                self._run_id,
                plan.now,
                finished,
                owed,
                full=plan.full_extract,
                is_whole=is_due and admission.is_whole(self._job, plan, reports),
            )
            reports = [self._misfits.get(report.signature, report) for report in reports]
            status = self._verdict(plan, reports)
        good = [report for report in reports if report.failure is None]
        if not self._may_publish(status):
            good = []
        rows = sum(report.rows for report in good)
        done = {report.signature for report in reports if report.failure is None}
        self._end(status, rows, len(files), {unit.signature for unit in plan.work_units} - done)
        return self._report(
            status,
            plan=plan,
            tasks=reports,
            rows=rows,
            bytes=sum(report.bytes for report in good),
            files=files,
            failures=run_report.failures(reports, stopped),
            notes=(
                *run_report.zero_rows(status, rows, usual),
                *run_report.no_progress(plan),
                *run_report.left_out(plan, is_recorded=self._may_publish(status)),
                *run_report.overtaken(self._rests if self._may_publish(status) else ()),
                *run_report.failed_and_gone(self._gone),
                *run_report.unchanged_labels(self._unchanged),
                *self._file_notes,
                *run_report.task_notes(reports),
                *answer_notes(good, publishing.refused_dir(self._job.publishing)),
                *self._secondary.notes,
            ),
            published=good,
        )

    def _verdict(self, plan: Plan, reports: Sequence[TaskReport]) -> RunStatus:
        good = sum(report.failure is None for report in reports)
        if good == len(plan.work_units):
            return RunStatus.SUCCESS
        all_or_nothing = self._job.running.commit_policy is CommitPolicy.FULL
        if all_or_nothing or good == 0 or self._job.publishing.mode is PublishMode.REPLACE:
            return RunStatus.FAILED
        return RunStatus.PARTIAL

    def _may_publish(self, status: RunStatus) -> bool:
        """Tell whether anything is to be recorded: under ``successful`` failures are, too."""
        if status is not RunStatus.FAILED:
            return True
        successful = self._job.running.commit_policy is CommitPolicy.SUCCESSFUL
        return successful and self._job.publishing.mode is not PublishMode.REPLACE

    def _publish(
        self,
        run_id: str,
        now: int,
        finished: Sequence[Finished],
        owed: publishing.Owed,
        *,
        full: bool,
        is_whole: bool = False,
    ) -> tuple[str, ...]:
        """Make results visible and remember them in one commit; return the new files' URIs."""
        spec = self._job.publishing
        dataset = publishing.dataset_dir(spec)
        live = self._destination.live()
        system_time = self._options.clock()
        target = publishing.Target(
            run_id=run_id,
            output_dir=publishing.output_dir(
                spec, now=now, full=full, taken=frozenset(self._files.folders(dataset))
            ),
            live=live,
            strays=publishing.strays(spec, live, self._files),
            system_time=system_time,
            horizon=max(system_time, now),
            left_low=owed.low,
            known_schema=publishing.recorded_schema(self._store),
            quarantined=publishing.quarantined_files(spec, self._files),
            is_whole=is_whole,
            missed=owed.missed,
        )
        stage = Stages(self.executors, self._options.stage_bytes)
        goes_on = self._may_publish(RunStatus.FAILED)
        work = Reshaping(self._job, target, now, is_whole, stage, keeps_others=goes_on)
        shaped = reshape(work, (*finished, *owed.failed), self._files)
        failed = (each.report for each in shaped.finished if each.report.failure is not None)
        self._misfits = {report.signature: report for report in failed}
        commit = publishing.decide(self._job, target, shaped, self._files)
        self._unchanged = publishing.unchanged_labels(shaped.finished, commit)
        publishing.publish(self._store, self._lease, commit, spec, self._files, self._destination)
        removed = commit.removes if spec.mode is PublishMode.REPLACE else ()
        foreign = tuple(file.uri for file in removed if not file.run_id)
        self._file_notes = run_report.foreign_files(foreign)
        if spec.is_one_folder_of_files:
            base = self._files.uri(dataset)
            self._file_notes += run_report.mixed_files(live, commit, base)
        if any(not move.target.is_dump for move in commit.moves) and spec.warehouse is None:
            publishing.write_metadata(
                self._files, target.output_dir, self._job, run_id, is_full=full
            )
        # Rows of a database lie in no file that anyone could open (spec README 32).
        return () if spec.warehouse else tuple(move.target.uri for move in commit.moves)

    def _end(self, status: RunStatus, rows: int, files: int, owed: Collection[str]) -> None:
        """Record the end; staged work of a failed run is kept for the next one to adopt.

        Of a run that published in part, the pages that work units still ``owed`` had read are kept.

        What is published is published: trouble here is told and does not fail the run.
        """
        self._record(status.value, rows, files)
        if self._may_publish(status):
            try:
                self._sweep(owed)
            except DilError as error:
                log.warning("staging could not be swept: %s", error.message)

    def _record(self, status: str, rows: int = 0, files: int = 0) -> None:
        try:
            self._store.end_run(self._lease, self._run_id, status, rows=rows, files=files)
        except DilError as error:
            log.warning("the end of the run could not be recorded: %s", error.message)

    def _sweep(self, owed: Collection[str] = ()) -> None:
        """Delete staging that no later run can use: of this run and of those before it."""
        for run in self._store.unfinished_runs():
            if owed and publishing.keep_logs(self._files, run.staging_dir, owed):
                continue
            if publishing.sweep(self._files, run.staging_dir):
                self._store.mark_swept(self._lease, run.run_id)
        self._files.delete_empty_folder(self._staging.rpartition("/")[0])

    def _interrupted(
        self, plan: Plan, adopted: Sequence[TaskReport], signal: BaseException
    ) -> RunReport:
        """Report a stop by signal; what is complete in staging waits for the next run."""
        stopped = ReportedFailure(None, RunInterruptedError.code, "the run was stopped by a signal")
        if self._is_published():
            note = "the signal came while rows were being published; the next run finishes that"
            report = self._report(RunStatus.FAILED, plan=plan, failures=(stopped,), notes=(note,))
            return replace(report, forced_exit_code=getattr(signal, "exit_code", 130))
        self._record("interrupted")
        done = [each.report for each in publishing.read_results(self._files, self._staging)]
        staged = len(done) + len(adopted)
        report = self._report(
            RunStatus.FAILED,
            plan=plan,
            tasks=(*adopted, *done),
            failures=(stopped,),
            notes=(
                f"{staged} of {counted(len(plan.work_units), 'work unit')} staged; "
                "the next run goes on from them"
                if staged
                else "no work unit was complete",
            ),
        )
        return replace(report, forced_exit_code=getattr(signal, "exit_code", 130))

    def _is_published(self) -> bool:
        """Tell whether this run's publish was begun or is even committed, as far as is known."""
        try:
            pending = self._store.pending_intent()
            if pending is not None and pending.commit.run_id == self._run_id:
                return True
            runs = self._store.unfinished_runs()
        except DilError as error:
            log.warning("how far the publish is cannot be told: %s", error.message)
            return False
        return any(run.committed for run in runs if run.run_id == self._run_id)

    def _failed(self, plan: Plan, reports: Sequence[TaskReport], error: DilError) -> RunReport:
        """Report a failure outside the tasks: publishing, state, Spark itself."""
        self._record("failed")
        if isinstance(error, ConfigError):
            error = error.located(self._job.properties.origin)
        failures = run_report.failures(reports, Failure.of(error))
        return self._report(RunStatus.FAILED, plan=plan, tasks=reports, failures=failures)

    def _report(  # noqa: PLR0913 - the members of a report
        self,
        status: RunStatus,
        *,
        plan: Plan | None = None,
        tasks: Sequence[TaskReport] = (),
        rows: int = 0,
        bytes: int = 0,  # noqa: A002 - the report's word
        files: tuple[str, ...] = (),
        failures: tuple[ReportedFailure, ...] = (),
        notes: tuple[str, ...] = (),
        recovered: tuple[str, ...] = (),
        published: Sequence[TaskReport] = (),
    ) -> RunReport:
        counters = [task.counters for task in tasks if not task.adopted]
        return RunReport(
            job=self._job.name,
            run_id=self._run_id,
            status=status,
            units=run_report.unit_counts(len(plan.work_units) if plan else 0, tasks),
            rows=rows,
            bytes=bytes,
            files=files,
            failures=failures,
            dataset_dir=publishing.dataset_dir(self._job.publishing),
            relation=self._job.publishing.relation,
            left=plan.left if plan else 0,
            recovered=recovered,
            notes=notes,
            requests=sum(each.requests for each in counters),
            rows_read=sum(each.rows_read for each in counters),
            is_validation=_only_validates(self._job),
            rows_dropped=sum(each.rows_dropped for each in counters),
            retries=sum(max(task.attempts - 1, 0) for task in tasks if not task.adopted),
            peak_rss_bytes=max((each.peak_rss_bytes for each in counters), default=0),
            aside=rows_aside(published, publishing.quarantine_dir(self._job.publishing)),
            drift=self._drift(published),
        )

    def _drift(self, published: Sequence[TaskReport]) -> tuple[SchemaDrift, ...]:
        """Return what changed in the dataset's schema; what is published is published."""
        if not published:
            return ()
        try:
            after = publishing.recorded_schema(self._store)
        except DilError as error:
            log.warning("the dataset's schema cannot be compared: %s", error.message)
            return ()
        return drift(self._job, self._known_schema, after, published)


def _only_validates(job: Job) -> bool:
    """Tell whether no row is to be expected: the last converter counts rows and gives none."""
    return any(ref.qualname == "InFlowValidation" for ref in job.conversion.converters[-1:])
