"""Records a commit: blocks, work units, coverage, file offsets and intent in one transaction.

A begun publish can always be committed: recording it needs only the commit, the store and the
fencing token, and builds the blocks on the present head.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from dil.model.dataset import Commit, RunWork
from dil.model.derived import QueryStep
from dil.model.json import JsonObject, JsonValue
from dil.model.stream import STREAM
from dil.state.amendments.recording import record_act, record_forgotten
from dil.state.blocks.canonical import instant_of, watermark_text
from dil.state.blocks.events import ConfigEvent
from dil.state.blocks.source_state import UnitRow, UnitSummary
from dil.state.chain import slices
from dil.state.chain.chain_rows import read_tip
from dil.state.chain.label_closing import LabelCloser
from dil.state.chain.writer import ChainWriter, event_limits
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.derived.appending import draft_query
from dil.state.runs import details, run_rows
from dil.state.work_units.unit_rows import UnitIndex

# The most work units that the offset of a stream lists.
MOST_OPEN = 2_000


def committed_block(tx: Transaction, job: str, run_id: str) -> tuple[bool, int | None]:
    """Return whether a run is committed, and the sequence of its block if it has one."""
    row = tx.row(sql.COMMITTED, job, run_id)
    return (False, None) if row is None else (True, row[0])


def record(tx: Transaction, job: str, commit: Commit) -> int | None:
    """Record a commit once; return the sequence of its block, None if it has no block.

    Raises:
        CommitConflictError: another writer moved the head.
        StateError: another run's intent is unfinished, or a rule of the chain would break.
    """
    run_rows.check_commit(commit)
    pending = tx.row(sql.INTENT_OF, job)
    if pending is not None and pending[0] != commit.run_id:
        raise run_rows.unfinished_intent(job, pending[0])
    tx.change(sql.DROP_INTENT, job, commit.run_id)
    if commit.act is not None:
        sequence = record_act(tx, job, commit, commit.act)
    else:
        sequence = _record_run(tx, job, commit)
    for kind, members in commit.checkpoints.items():
        details.change_checkpoint(tx, job, kind, members)
    tx.change(sql.ADD_COMMITTED, job, commit.run_id, sequence)
    return sequence


def _record_run(tx: Transaction, job: str, commit: Commit) -> int | None:
    """Record the results of a run; return its block's sequence, None if it has none."""
    counters = run_rows.read_counters(tx, job)
    sequence = None
    if commit.query is not None:
        sequence = _append_query(tx, job, commit, commit.query)
    elif commit.run.watermarks:
        index = UnitIndex(tx, job, counters.era)
        sequence = _append_run(tx, job, commit, index)
        counters = replace(counters, era=index.era)
    elif _is_begun(tx, job):
        # The run's work units are not recorded, but the chain has to say which files are live.
        bare = replace(commit, run=RunWork(forgotten=commit.run.forgotten))
        sequence = _append_run(tx, job, bare, UnitIndex(tx, job, counters.era))
    else:
        slices.forget_offsets(tx, job, (file.uri for file in commit.removes))
    _set_status(tx, job, commit)
    rows = sum(move.target.rows for move in commit.moves)
    run_rows.write_counters(tx, job, replace(counters, last_rows=rows or counters.last_rows))
    return sequence


def _is_begun(tx: Transaction, job: str) -> bool:
    """Return whether runs or an operator began a chain; a query's chain has queries only."""
    tip = read_tip(tx, job)
    return tip is not None and tip.dataset_kind != "Derivative"


def _append_run(tx: Transaction, job: str, commit: Commit, index: UnitIndex) -> int | None:
    """Append a run's blocks; return the data block's sequence, None if nothing changed (V23)."""
    writer = ChainWriter(tx, job, commit.system_time, horizon=commit.horizon)
    writer.begin()
    record_forgotten(tx, job, commit, writer, index.era)
    # Only the digest of the configuration is stored: properties may have secrets, and the state
    # outlives them (rule S4).
    source: JsonObject = {"sourceName": commit.source_name, "configDigest": commit.config_digest}
    if STREAM in commit.checkpoints:
        source = {**source, "stream": {"epoch": commit.checkpoints[STREAM]["epoch"]}}
    if any(writer.source.get(name) != value for name, value in source.items()):
        writer.draft(ConfigEvent("SetPollingSource", source))
    if commit.moves and (writer.schema is None or commit.schema not in ("", writer.schema)):
        writer.set_schema(commit.schema)
    closer = (
        None if commit.closed_labels is None else LabelCloser(tx, job, commit, commit.closed_labels)
    )
    if closer is not None:
        closer.reopen(writer)
    sequence = writer.next_sequence
    has_data = bool(commit.moves or commit.removes)
    changes = index.apply(commit.run.outcomes, sequence, has_data=has_data)
    index.leave_out(commit.run.skipped, sequence, changes)
    summary = index.summary(writer.summary, changes)
    rows = list(changes.rows.values())
    stream = commit.checkpoints.get(STREAM)
    if stream is not None:
        end = offset_of(stream["epoch"], summary, rows)
        details.change_checkpoint(tx, job, STREAM, {"end": end})
        stream = {**stream, "end": end}
    event = writer.data_event(commit)
    event = replace(
        event,
        new_watermark=_watermark(event.new_watermark, summary, commit),
        new_source_state=summary.as_state(commit.source_name, rows, stream=stream),
    )
    is_changed = writer.draft_if_changed(event, replaced=changes.replaced)
    is_closed = closer is not None and closer.close(writer, summary)
    if is_changed or is_closed:
        writer.write()
    return sequence if is_changed else None


def _append_query(tx: Transaction, job: str, commit: Commit, step: QueryStep) -> int | None:
    """Append the blocks of a query; return the data block's sequence, None if nothing changed."""
    writer = ChainWriter(tx, job, commit.system_time, horizon=commit.horizon)
    sequence = draft_query(writer, commit, step)
    writer.write()  # the chain records a changed query even if its rows are the same
    data = writer.tip.data if sequence is not None and writer.tip is not None else None
    stream = None if data is None else data.stream
    if stream is not None:
        details.change_checkpoint(tx, job, STREAM, {"end": stream["end"]})
    return sequence


def offset_of(epoch: JsonValue, summary: UnitSummary, changed: Iterable[UnitRow]) -> JsonObject:
    """Return a stream's position after a commit; all time before ``done`` (ms UTC) is committed.

    The offset stays small, however many work units there are: above ``done`` it lists only those
    that the micro-batch changed, or has the digest of the whole index if these are too many.
    """
    done = summary.frontier
    progress: JsonObject = {
        row.signature: {"high": row.high}
        for row in changed
        if row.high is not None and (done is None or row.high > done)
    }
    is_short = len(progress) <= MOST_OPEN
    return {
        "v": 1,
        "epoch": epoch,
        "stateVersion": summary.version,
        "done": done,
        "open": progress if is_short else {},
        **({} if is_short else {"digest": summary.digest}),
    }


def _watermark(before: str | None, summary: UnitSummary, commit: Commit) -> str | None:
    """Return the time before which all is committed (8.8); it never goes back (C3).

    For a job with an event watermark, rows before that time may still come, so the event watermark
    is a limit, too. Partitions may end in the future, but future rows are not committed, so the
    horizon is also a limit: V18 can never refuse a publish that is already visible.
    """
    limits = [summary.frontier, commit.horizon, *event_limits(commit)]
    if commit.run.left_low is not None:
        limits.append(commit.run.left_low)
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return before
    reached = min(known)
    if before is not None and instant_of(before) >= reached:
        return before
    return watermark_text(reached)


def _set_status(tx: Transaction, job: str, commit: Commit) -> None:
    """Mark the run as published, so that a crash before its end never publishes it twice.

    Staged work of earlier runs is superseded: it was adopted, or belongs to an older plan.
    """
    succeeded = sum(outcome.succeeded for outcome in commit.run.outcomes)
    if not succeeded and not commit.moves:
        return
    status = "success" if succeeded == len(commit.run.outcomes) else "partial"
    tx.change(sql.COMMITTED_RUN, status, job, commit.run_id)
    tx.change(sql.SUPERSEDED_RUNS, job, commit.run_id)


def describe(job: str, commit: Commit) -> str:
    """Return one line about a commit for logs; it has counts, never data."""
    if commit.act is not None:
        units = len(commit.act.changed) + len(commit.act.removed)
        return f"job {json.dumps(job)} {commit.act.verb} {commit.run_id}: work units {units}"
    forgotten = f", forgotten {len(commit.run.forgotten)}" if commit.run.forgotten else ""
    return (
        f"job {json.dumps(job)} run {commit.run_id}: work units {len(commit.run.outcomes)}"
        f"{forgotten}, files added {len(commit.moves)}, removed {len(commit.removes)}"
    )
