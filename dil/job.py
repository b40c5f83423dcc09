"""The story of a run: load, lease, recover, plan, execute, publish, commit, report.

The caller loads the job; everything after that is told here, in order. Nothing below imports
Spark or Arrow before there is work to do.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dil import planning, publishing
from dil.errors import ConfigError, LeaseHeldError, RunInterruptedError
from dil.execution.executor import Execution, Executor, hopeless
from dil.model.dataset import Lease, RunRecord
from dil.model.history import History
from dil.model.job import CommitPolicy, Job, PublishMode
from dil.model.report import ReportedFailure, RunReport, RunStatus, UnitCounts
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import Plan, WorkUnit
from dil.observe.progress import Progress, SilentProgress
from dil.publishing import Finished
from dil.spi.state_store import StateStore
from dil.state import LeaseKeeper, open_store
from dil.storage import filesystem_for

log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEASE_GLANCE_S = 0.5
_RECOVERABLE = frozenset({"running", "failed", "interrupted"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a caller decides about one run.

    ``now_ms`` is the run's now for planning, ``clock`` the real clock, both epoch ms UTC.
    ``wait_lease_s`` is how long to wait for another run to end. ``cache`` is a folder that
    survives the run. ``executor`` takes Spark's place.
    """

    now_ms: int
    clock: Callable[[], int]
    progress: Progress = field(default_factory=SilentProgress)
    wait_lease_s: float = 0.0
    accept_new_signatures: bool = False
    run_id: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None
    executor: Executor | None = None


def plan_job(
    job: Job, *, now_ms: int, clock: Callable[[], int] | None = None, explain: bool = False
) -> Plan:
    """Return what a run at ``now_ms`` (epoch ms UTC) would do; reads state, changes nothing.

    ``explain`` keeps what is not due, with the reason.
    """
    with open_store(job.state, job.name, clock=clock or (lambda: now_ms)) as store:
        return _plan(job, store, now_ms, explain=explain)


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
        return _report(job, run_id, RunStatus.NOTHING_DUE, notes=("job.disabled is true",))
    _refuse_lost_state(job, options)
    with open_store(job.state, job.name, clock=options.clock) as store:
        lease = _take_lease(store, run_id, job.running.lease_s, options.wait_lease_s)
        with LeaseKeeper(store, lease, job.running.lease_s) as keeper:
            report = _Run(job, options, run_id, store, lease, keeper).tell()
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
        self._files = filesystem_for(job.publishing.final_dir)
        self._staging = publishing.run_staging_dir(job.publishing, job.name, run_id)

    def tell(self) -> RunReport:
        """Recover, plan, execute, publish and commit; say how it went."""
        recovered = self._recover()
        plan = self._planned()
        if not plan.work_units:
            self._sweep()
            return _report(
                self._job, self._run_id, RunStatus.NOTHING_DUE, recovered=recovered,
                notes=(f"nothing is due: {plan.skipped} work units are up to date",),
            )  # fmt: skip
        self._begin(plan)
        adopted, fresh = self._adopt(plan)
        try:
            execution = self._execute(plan, fresh)
        except (RunInterruptedError, KeyboardInterrupt) as signal:
            return replace(self._interrupted(plan, signal), recovered=recovered)
        return replace(self._conclude(plan, adopted, execution), recovered=recovered)

    # Recover

    def _recover(self) -> tuple[str, ...]:
        """Finish what earlier runs decided; publish what a crashed ``successful`` run completed."""
        spec = self._job.publishing
        recovered = []
        pending = publishing.finish_pending(self._store, self._lease, spec, self._files)
        if pending is not None:
            recovered.append(pending.run_id)
        for run in self._store.unfinished_runs():
            if not _publishes_its_successes(run, spec.mode):
                continue
            results = publishing.staged_work(self._files, run)
            if not results:
                continue
            finished = publishing.as_finished(results)
            log.info("publishing %d work units that run %s completed", len(finished), run.run_id)
            self._publish(run.run_id, run.now, finished, full=results[0].full_extract)
            recovered.append(run.run_id)
        return tuple(recovered)

    # Plan

    def _planned(self) -> Plan:
        """Plan against state, once it is sure that the plan will not double rows."""
        self._check_shape()
        plan = _plan(self._job, self._store, self._options.now_ms)
        publishing.claim(
            self._files,
            publishing.dataset_dir(self._job.publishing),
            publishing.Owner(self._job.name, self._job.state.directory, self._job.publishing.mode),
        )
        return plan

    def _check_shape(self) -> None:
        """Refuse a watermark whose signatures no record has, unless that is wanted."""
        job, store = self._job, self._store
        shape, known = planning.shape(job.planning), store.recorded_shape()
        if shape == known or not job.state.enabled:
            return
        wanted = job.planning.backfill or job.planning.ignore_history
        if known is not None and not wanted and not store.history().is_empty():
            _refuse_new_shape(job, known, shape, accepted=self._options.accept_new_signatures)
        if not job.planning.backfill:
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

    # Execute

    def _adopt(self, plan: Plan) -> tuple[tuple[Finished, ...], tuple[WorkUnit, ...]]:
        """Split the plan into what earlier runs already staged and what must be extracted."""
        runs = [run for run in self._store.unfinished_runs() if run.status in _RECOVERABLE]
        staged = [each for run in runs for each in publishing.staged_work(self._files, run)]
        pool = publishing.Adoptable(staged, self._job.digest)
        adopted, fresh = [], []
        for unit in plan.work_units:
            report = pool.take(unit)
            if report is None:
                fresh.append(unit)
            else:
                adopted.append(Finished(unit, report))
        return tuple(adopted), tuple(fresh)

    def _execute(self, plan: Plan, units: Sequence[WorkUnit]) -> Execution:
        """Run the work units as tasks; no session is started for none."""
        if not units:
            return Execution(())
        run = RunContext(self._job, self._run_id, plan.now, plan.full_extract, self._staging)
        executor = self._options.executor or self._spark(len(units))
        self._options.progress.start(len(units))
        try:
            return executor.execute(run, units, self._watch(len(units)))
        finally:
            self._options.progress.finish()

    def _spark(self, units: int) -> Executor:
        from dil.execution.session import SparkSettings
        from dil.execution.spark import SparkExecutor

        threads = min(self._job.running.threads, units)
        return SparkExecutor(
            SparkSettings(
                f"dil {self._job.name}", threads, self._options.environ, self._options.cache
            )
        )

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
                return Failure("DIL-LEASE-LOST", "another run took the lease over")
            return hopeless(reports)

        return watch

    # Publish, commit, report

    def _conclude(self, plan: Plan, adopted: Sequence[Finished], execution: Execution) -> RunReport:
        """Publish what the commit policy allows, record it, and report."""
        by_signature = {report.signature: report for report in execution.reports}
        ran = [
            Finished(unit, by_signature[unit.signature])
            for unit in plan.work_units
            if unit.signature in by_signature
        ]
        finished = (*adopted, *ran)
        status = self._verdict(plan, finished)
        usual = self._store.last_rows()
        files: tuple[str, ...] = ()
        if self._may_publish(status):
            files = self._publish(
                self._run_id, plan.now, finished, full=plan.full_extract, left_low=plan.left_low
            )
        good = [each for each in finished if each.report.failure is None] if files else ()
        rows = sum(each.report.rows for each in good)
        self._end(status, rows, len(files))
        counts = _counts(plan, adopted, ran)
        report = _report(
            self._job, self._run_id, status, units=counts, rows=rows, files=files, left=plan.left,
            bytes=sum(each.report.bytes for each in good),
            failures=_failures(ran, execution.stopped),
            notes=(*_zero_rows(status, rows, usual), *_notes(finished)),
        )  # fmt: skip
        return _with_counters(report, [each.report for each in finished])

    def _verdict(self, plan: Plan, finished: Sequence[Finished]) -> RunStatus:
        good = sum(each.report.failure is None for each in finished)
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
        *,
        full: bool,
        left_low: int | None = None,
    ) -> tuple[str, ...]:
        """Make results visible and remember them in one commit; return the new files' URIs."""
        spec = self._job.publishing
        dataset = publishing.dataset_dir(spec)
        live = publishing.live_files(self._files, dataset)
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
            left_low=left_low,
        )
        commit = publishing.decide(self._job, target, finished, self._files)
        publishing.publish(self._store, self._lease, commit, spec, self._files)
        return tuple(move.target.uri for move in commit.moves)

    def _end(self, status: RunStatus, rows: int, files: int) -> None:
        """Record the end; staged work of a failed run is kept for the next one to adopt."""
        self._store.end_run(self._lease, self._run_id, status.value, rows=rows, files=files)
        if self._may_publish(status):
            self._sweep()

    def _sweep(self) -> None:
        """Delete staging that no later run can use: of this run and of those before it."""
        for run in self._store.unfinished_runs():
            if publishing.sweep(self._files, run.staging_dir):
                self._store.mark_swept(self._lease, run.run_id)

    def _interrupted(self, plan: Plan, signal: BaseException) -> RunReport:
        """Report a stop by signal; what is complete in staging waits for the next run."""
        self._store.end_run(self._lease, self._run_id, "interrupted", rows=0, files=0)
        staged = sum(1 for _ in publishing.read_results(self._files, self._staging))
        planned = len(plan.work_units)
        return _report(
            self._job, self._run_id, RunStatus.FAILED,
            units=UnitCounts(planned=planned, not_started=planned),
            failures=(ReportedFailure(None, "DIL-INTERRUPTED", "the run was stopped by a signal"),),
            notes=(f"{staged} of {planned} work units are staged; the next run goes on from them",),
            forced_exit_code=getattr(signal, "exit_code", 130),
        )  # fmt: skip


def _plan(job: Job, store: StateStore, now_ms: int, *, explain: bool = False) -> Plan:
    history: History = store.history() if job.state.enabled else planning.BareHistory({})
    return planning.plan(job.planning, now_ms=now_ms, history=history, explain=explain)


def _refuse_lost_state(job: Job, options: RunOptions) -> None:
    """Refuse state beside the job file on a driver whose machine is gone after the run."""
    from dil.execution.session import is_on_cluster

    if job.state.is_default_place and is_on_cluster(options.environ):
        raise ConfigError.single(
            "state.store.dir",
            "is not set, and the driver runs on a machine of the cluster, so that the watermarks "
            "would be lost with it",
            "Set it to a folder that every driver sees, or submit with --deploy-mode client.",
        )


def _take_lease(store: StateStore, run_id: str, lease_s: int, wait_s: float) -> Lease:
    """Take the lease, trying again until ``wait_s`` seconds have passed."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return store.acquire_lease(run_id, lease_s=lease_s)
        except LeaseHeldError:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            time.sleep(min(_LEASE_GLANCE_S, left))


def _publishes_its_successes(run: RunRecord, mode: PublishMode) -> bool:
    return (
        run.status in _RECOVERABLE
        and run.policy == CommitPolicy.SUCCESSFUL.value
        and mode is not PublishMode.REPLACE
    )


def _refuse_new_shape(job: Job, known: str, shape: str, *, accepted: bool) -> None:
    """Stop a changed watermark from extracting everything again (spec README 38)."""
    if accepted:
        log.warning(
            "the watermark changed from %s to %s; all of it is extracted again", known, shape
        )
        return
    raise ConfigError.single(
        "ms.watermark",
        f"is now {shape}; earlier runs of {job.name} had {known}. No work unit would find its "
        "record, and everything would be extracted and published again",
        "Restore the earlier from, zone and partition type, use ms.backfill=true for a one-time "
        "range, or accept it with --accept-new-signatures.",
        job.properties.origin("ms.watermark"),
    )


def new_run_id(now_ms: int) -> str:
    """Return a new id that sorts by the real time ``now_ms`` (epoch ms UTC) and fits file names."""
    moment = _EPOCH + timedelta(milliseconds=now_ms)
    return f"{moment:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"


def _counts(plan: Plan, adopted: Sequence[Finished], ran: Sequence[Finished]) -> UnitCounts:
    failed = sum(each.report.failure is not None for each in ran)
    return UnitCounts(
        planned=len(plan.work_units),
        succeeded=len(ran) - failed,
        failed=failed,
        adopted=len(adopted),
        not_started=len(plan.work_units) - len(adopted) - len(ran),
    )


def _failures(ran: Sequence[Finished], stopped: Failure | None) -> tuple[ReportedFailure, ...]:
    failures = [
        ReportedFailure(
            each.work_unit.signature, each.report.failure.code, each.report.failure.error
        )
        for each in ran
        if each.report.failure is not None
    ]
    if stopped is not None:
        failures.append(ReportedFailure(None, stopped.code, stopped.error))
    return tuple(failures)


def _zero_rows(status: RunStatus, rows: int, usual: int | None) -> tuple[str, ...]:
    if rows or usual is None or status is RunStatus.FAILED:
        return ()
    return (
        f"NO ROWS: this run published nothing, the last one that did published {usual} rows. "
        "Look at the source; ms.work.unit.min.records=1 makes this a failure.",
    )


def _notes(finished: Sequence[Finished]) -> tuple[str, ...]:
    """Return the tasks' notes, each once, with the number of work units that gave it."""
    counted: dict[str, int] = {}
    for each in finished:
        for note in each.report.notes:
            counted[note] = counted.get(note, 0) + 1
    return tuple(f"{note} ({count} work units)" for note, count in counted.items())


def _with_counters(report: RunReport, reports: Sequence[TaskReport]) -> RunReport:
    return replace(
        report,
        requests=sum(each.counters.requests for each in reports),
        rows_read=sum(each.counters.rows_read for each in reports),
        rows_dropped=sum(each.counters.rows_dropped for each in reports),
        retries=sum(max(each.attempts - 1, 0) for each in reports),
        peak_rss_bytes=max((each.counters.peak_rss_bytes for each in reports), default=0),
    )


def _report(job: Job, run_id: str, status: RunStatus, **facts: object) -> RunReport:
    defaults: dict[str, object] = {"units": UnitCounts()}
    where = publishing.dataset_dir(job.publishing)
    return RunReport(job.name, run_id, status, dataset_dir=where, **{**defaults, **facts})  # type: ignore[arg-type]
