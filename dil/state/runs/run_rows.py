"""Runs, the one pending intent, and the job's counters."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial

from dil.errors import CommitConflictError, StateError
from dil.model.dataset import Commit, Intent, RunRecord
from dil.state.databases import sql
from dil.state.databases.database import LongValue, Row, Transaction
from dil.state.runs import details
from dil.state.runs.intent_codec import decode_intent, intent_pieces


@dataclass(frozen=True, slots=True)
class JobCounters:
    """The counters of one job, in one row.

    ``shape`` is a text of the watermark's ``from``, zone and partition; ``era`` counts its changes.
    ``last_rows`` is the number of rows of the last run that published any.
    """

    shape: str | None = None
    era: int = 0
    last_rows: int | None = None


def read_counters(tx: Transaction, job: str) -> JobCounters:
    """Return the job's counters; a new job's counters if it has none."""
    row = tx.row(sql.SHAPE, job)
    return JobCounters() if row is None else JobCounters(*row)


def write_counters(tx: Transaction, job: str, counters: JobCounters) -> None:
    """Save the job's counters."""
    values = (counters.shape, counters.era, counters.last_rows, job)
    if tx.change(sql.CHANGE_SHAPE, *values) == 0:
        tx.change(sql.ADD_SHAPE, *values)


def keep_shape(tx: Transaction, job: str, shape: str) -> None:
    """Save a shape; another shape begins a new era, in which no time counts as covered yet."""
    counters = read_counters(tx, job)
    if counters.shape == shape:
        return
    era = counters.era if counters.shape is None else counters.era + 1
    write_counters(tx, job, replace(counters, shape=shape, era=era))


def begin(tx: Transaction, job: str, run: RunRecord) -> None:
    """Record a run; a run that is recorded again starts over."""
    values = (
        run.started, run.now, run.policy, run.digest, run.staging_dir, run.status, run.rows,
        run.files, job, run.run_id,
    )  # fmt: skip
    if tx.change(sql.CHANGE_RUN, *values) == 0:
        tx.change(sql.ADD_RUN, *values)


def end(tx: Transaction, job: str, run_id: str, status: str, published: tuple[int, int]) -> None:
    """Record the end of a run; ``published`` are the numbers of rows and files.

    Raises:
        StateError: the run was never recorded.
    """
    rows, files = published
    if tx.change(sql.END_RUN, status, rows, files, job, run_id) != 1:
        raise StateError(
            f"run {run_id} of job {json.dumps(job)} was never begun",
            "Was the state store replaced during the run? Restore it, or run the job again.",
        )


def unfinished(tx: Transaction, job: str) -> list[RunRecord]:
    """Return the runs whose staging was not deleted, oldest first.

    Committed runs are among the results, so that their staging can be deleted.
    """
    return [as_run(job, row) for row in tx.rows(sql.STAGED_RUNS, job)]


def drop_swept(tx: Transaction, job: str, before: int) -> None:
    """Delete the rows of runs that began before an instant, epoch ms UTC, and have no staging.

    The newest run keeps its row: a job that ran must never look as if it had not.
    """
    details.drop_without_run(tx, job)
    row = tx.row(sql.NEWEST_RUN, job)
    if row is None or row[0] is None:
        return
    limit = min(before, row[0])
    details.drop_swept(tx, job, limit)
    tx.change(sql.DROP_SWEPT_COMMITS, job, job, limit)
    tx.change(sql.DROP_SWEPT_RUNS, job, limit)


def as_run(job: str, row: Row) -> RunRecord:
    """Return the record in a row of ``STAGED_RUNS`` or ``RUNS``."""
    run_id, started, now, policy, digest, folder, status, rows, files, committed, staged = row
    return RunRecord(
        run_id, job, started, now, policy, digest, folder, status, rows, files,
        committed=bool(committed), staged=bool(staged),
    )  # fmt: skip


def check_commit(commit: Commit) -> None:
    """Refuse a commit that could not be recorded, before any part of it becomes visible.

    Raises:
        StateError: a success ends at or before its start.
    """
    for outcome in commit.run.outcomes:
        if outcome.high is not None and outcome.high <= outcome.low:
            raise StateError(
                f"work unit {outcome.signature} is recorded as a success up to {outcome.high}, "
                f"which is not after its start {outcome.low}",
                "This is a defect of dil: nothing was published. Please report it.",
            )


def keep_intent(tx: Transaction, job: str, intent: Intent) -> None:
    """Record the job's only intent; repeating it with the same intent changes nothing.

    Raises:
        StateError: another intent is still pending.
        CommitConflictError: the run is already committed.
    """
    run_id = intent.commit.run_id
    if tx.row(sql.COMMITTED, job, run_id) is not None:
        raise CommitConflictError(
            f"run {run_id} of job {json.dumps(job)} is already committed",
            "Nothing was published again; run the job again to plan what is due.",
        )
    kept = tx.row(sql.INTENT, job)
    if kept is None:
        _add_intent(tx, job, intent)
    elif decode_intent(kept[1]) != intent:
        raise unfinished_intent(job, kept[0])


def replace_intent(tx: Transaction, job: str, intent: Intent) -> None:
    """Replace the pending intent of the same run.

    Raises:
        StateError: no intent of this run is pending.
    """
    run_id = intent.commit.run_id
    if tx.change(sql.DROP_INTENT, job, run_id) != 1:
        raise StateError(
            f"run {run_id} of job {json.dumps(job)} has no publish to finish",
            "Another process has finished it: `dil runs list` shows the run.",
        )
    _add_intent(tx, job, intent)


def _add_intent(tx: Transaction, job: str, intent: Intent) -> None:
    text = LongValue(partial(intent_pieces, intent), is_text=True)
    tx.add(sql.ADD_INTENT, job, intent.commit.run_id, long=text)


def pending(tx: Transaction, job: str) -> Intent | None:
    """Return the pending intent, None if there is none."""
    row = tx.row(sql.INTENT, job)
    return None if row is None else decode_intent(row[1])


def unfinished_intent(job: str, run_id: str) -> StateError:
    """Return the error for a change that would ignore an unfinished intent."""
    return StateError(
        f"job {json.dumps(job)}: run {run_id} began to publish and was not finished",
        "The next `dil run` finishes it before anything else.",
    )
