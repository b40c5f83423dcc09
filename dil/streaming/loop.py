"""The loop of a stream: finds due work, reads it in micro-batches, waits, and so on until the end.

Only the chain has the position of a stream. So a stream resumes after the last commit, even if it
was killed at any moment or its checkpoint is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from dil.errors import ConfigError, DilError, LeaseLostError
from dil.model.report import RunReport, RunStatus
from dil.model.stream import Look, MicroBatch, StreamSpec, StreamState
from dil.model.work_unit import Plan
from dil.observe.progress import counted, human_seconds
from dil.streaming.checkpoint import CheckpointAheadError, CheckpointFolder
from dil.streaming.patience import SAME_BATCH, Patience, backoff_s
from dil.streaming.rounds import Admission, Due, micro_batches
from dil.streaming.totals import Totals

log = logging.getLogger(__name__)

_PAUSE_S = 0.2


class Batches(Protocol):
    """Plans and runs micro-batches; see ``dil.run.micro_batches``."""

    def look(self, now_ms: int) -> Look:
        """Finish the publish of earlier micro-batches; return all due work."""

    def state(self) -> StreamState | None:
        """Return the newest micro-batch that is committed."""

    def run(self, due: Plan, batch: MicroBatch, *, is_alone: bool = False) -> RunReport:
        """Run one micro-batch; return its report, also if it failed."""

    def summary(self, status: RunStatus) -> RunReport:
        """Return the report of a stream before its first micro-batch."""

    def reset(self) -> None:
        """Stop the Spark session."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The stream's inputs from outside: clocks, and requests to stop.

    ``now_ms`` returns the now of planning (epoch ms UTC), ``stops`` returns whether the stream
    should end between two micro-batches. If ``forces_new_epoch`` is true, a checkpoint of another
    chain is ignored.
    """

    now_ms: Callable[[], int]
    stops: Callable[[], bool] = lambda: False
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    forces_new_epoch: bool = False


@dataclass(slots=True)
class StreamLoop:
    """One stream from its start to its end, in one process under one lease.

    ``is_dated`` says that the work units have times, so that the stream can be behind.
    """

    spec: StreamSpec
    limit: int | None
    batches: Batches
    checkpoint: CheckpointFolder
    around: Surroundings
    is_dated: bool = True
    patience: Patience = field(default_factory=Patience)
    _failures: int = 0
    _epoch: str = ""
    _left: int = 0
    _takes: str = ""
    _has_more: bool = False
    _went_well: bool = False

    def run(self, run_id: str) -> RunReport:
        """Run micro-batches until due work is read, or the stream has to stop; return one report.

        Raises:
            ConfigError: the configuration is wrong.
            LeaseLostError: another run took over.
            CheckpointAheadError: the chain is older than the stream.
            DilError: the stream is no service, and could not find due work.
        """
        started = self.around.monotonic()
        if self.spec.every_ms is not None:
            every = human_seconds(self.spec.every_ms / 1000)
            log.info("this service looks for new work every %s, until it is stopped", every)
        elif self._delete_stop_file():
            log.warning("the stop file existed before the run, and is deleted: the run continues")
        totals = Totals(self.batches.summary(RunStatus.NOTHING_DUE))
        admission = Admission(self.spec, self.limit)
        why = ""
        while not why:
            began = self.around.monotonic()
            last = self._round(totals, admission)
            if last is not None and last.is_interrupted:
                self._delete_stop_file()
                done = totals.report(run_id, self.around.monotonic() - started, failed=True)
                return replace(done, forced_exit_code=last.forced_exit_code)
            if self._has_more:
                continue
            if self._left or self.spec.is_service:
                why = self._wait(began)
            else:
                break
        seconds = self.around.monotonic() - started
        self._delete_stop_file()  # the file must not stop the next run
        if why:
            # Otherwise a service that never read successfully would end as if nothing were due.
            only_failed = self._failures > 0 and not self._went_well
            failed = only_failed or self._is_stuck
            done = totals.report(run_id, seconds, why, failed=failed, was_stopped=True)
            return replace(done, left=self._left)
        return totals.report(run_id, seconds, failed=self._failures > 0)

    def _round(self, totals: Totals, admission: Admission) -> RunReport | None:
        """Read all due work; return the report of the last micro-batch, None if there was none."""
        last, self._left, self._has_more = None, 0, False
        try:
            look = self.batches.look(self.around.now_ms())
            totals.add_look(look)
            if look.recovered:
                log.info("first finished what earlier runs began: %s", ", ".join(look.recovered))
            due, self._takes = look.plan, look.takes
            # The epoch is found once, after the unfinished work of earlier processes is complete.
            if not self._epoch:
                forces = self.around.forces_new_epoch
                self._epoch = self.checkpoint.begin(self.batches.state(), forces_new=forces)
            now_s = self.around.monotonic()
            for each in micro_batches(due, admission, self.patience, now_s):
                if last is None:
                    self._log_due(look, each)
                if self.stop_wanted():
                    self._left = each.plan.left + len(each.plan.work_units)
                    return last
                last = self._micro_batch(each)
                totals.add(last)
                admission.learn(last)
                if not self._goes_on(each, last):
                    return last
        except (ConfigError, LeaseLostError, CheckpointAheadError):
            raise
        except DilError as error:
            if not self.spec.is_service:
                raise
            log.warning("the stream could not continue: %s", error)
            totals.add_failure(error)
            self._failed()
            return last
        self._failures, self._went_well, self._has_more = 0, True, bool(look.takes)
        return last

    def _log_due(self, look: Look, first: Due) -> None:
        """Log how much is due, unless the first micro-batch takes all of it and says so itself."""
        taken, due = len(first.plan.work_units), len(look.plan.work_units)
        if look.takes or self.spec.is_service or taken < due:
            log.info("%s due", look.takes or counted(due, "work unit"))

    def _micro_batch(self, due: Due) -> RunReport:
        known = self.batches.state()
        is_ours = known is not None and known.batch.epoch == self._epoch
        number = known.batch.number + 1 if known is not None and is_ours else 0
        batch = MicroBatch(self._epoch, number)
        start = {} if known is None else known.end
        self.checkpoint.plan(batch, start, due.signatures, self.around.now_ms())
        report = self.batches.run(due.plan, batch, is_alone=due.is_alone)
        after = self.batches.state()
        if after is not None and after.batch == batch:
            self.checkpoint.commit(batch, after.end)
        level = logging.WARNING if report.failures else logging.INFO
        seen = after if self.is_dated else None
        line = _line(batch, report, due, seen, self.around.now_ms(), self._takes)
        log.log(level, "%s", line)
        return report

    def _goes_on(self, due: Due, report: RunReport) -> bool:
        """Note how a micro-batch ended; return whether the next one may begin."""
        if report.is_interrupted:
            return False
        failed = {each.signature for each in report.failures if each.signature is not None}
        if report.is_recorded:
            self._went_well = True
            self.patience.succeeded(name for name in due.signatures if name not in failed)
            self.patience.failed_alone(failed, self.around.monotonic())
            return True
        if report.status in {RunStatus.SUCCESS, RunStatus.NOTHING_DUE}:
            self._went_well = True
            self.patience.succeeded(due.signatures)
            return True
        lost = next((each for each in report.failures if each.code == LeaseLostError.code), None)
        if lost is not None:
            raise LeaseLostError(lost.error, lost.fix)
        if not self._takes:  # the work units of a slice cannot run without each other
            self.patience.failed_together(due.signatures)
        self._failed()
        if self.spec.is_service and self._is_stuck:
            log.error(
                "failed %d times in a row: %s. No row of an input may be skipped, so no rows are "
                "published until this succeeds.",
                self._failures,
                self._takes,
            )
        return False

    @property
    def _is_stuck(self) -> bool:
        """Return whether a slice of inputs fails repeatedly; no other slice can overtake it."""
        return bool(self._takes) and self._failures >= SAME_BATCH

    def _failed(self) -> None:
        self._failures += 1
        if self.spec.is_service:
            self.batches.reset()

    def stop_wanted(self) -> bool:
        """Return whether a signal or the stop file asks the stream to end."""
        stop_file = self.spec.stop_file
        return self.around.stops() or bool(stop_file and Path(stop_file).exists())

    def _wait(self, began: float) -> str:
        """Wait to look for due work again; return why the stream ends instead, or an empty text."""
        wait_s = (self.spec.every_ms or 0) / 1000 - (self.around.monotonic() - began)
        if self._failures:
            wait_s = backoff_s(self._failures)
            log.info("next attempt in %s", human_seconds(wait_s))
        while not self.stop_wanted():
            if wait_s <= 0:
                return ""
            self.around.sleep(min(wait_s, _PAUSE_S))
            wait_s -= _PAUSE_S
        if self.around.stops():
            return "stopped by a signal, between two micro-batches"
        return f"stopped by the file {self.spec.stop_file}, between two micro-batches"

    def _delete_stop_file(self) -> bool:
        """Delete the stop file; return whether it was there."""
        stop_file = self.spec.stop_file
        if not stop_file or not Path(stop_file).exists():
            return False
        Path(stop_file).unlink(missing_ok=True)
        return True


def _line(
    batch: MicroBatch,
    report: RunReport,
    due: Due,
    after: StreamState | None,
    now_ms: int,
    takes: str,
) -> str:
    """Return a line on a micro-batch: its outcome, the work left, how far the stream is behind."""
    units = report.units
    parts = [f"micro-batch {batch.number} ({batch.epoch}): {report.status.value}"]
    parts += [takes or counted(units.succeeded + units.adopted, "work unit")]
    parts += [f"{units.failed} failed"] if units.failed and not takes else []
    parts += [counted(report.rows, "row"), human_seconds(report.seconds)]
    parts += [f"{due.plan.left:,} left"] if due.plan.left else []
    done = None if after is None else after.end.get("done")
    if isinstance(done, int) and done <= now_ms:
        parts += [f"{human_seconds((now_ms - done) / 1000)} behind"]
    text = ", ".join(parts)
    if report.failures:
        first = report.failures[0]
        text += f"; {first.place}: {first.error}  [{first.code}]"
        more = len(report.failures) - 1
        text += f"; and {counted(more, 'more failure')}" if more else ""
    return text
