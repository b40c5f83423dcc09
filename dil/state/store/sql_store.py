"""The state store over an SQL database: one job's view of a store that many jobs share."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter

from dil.errors import CommitConflictError
from dil.model.dataset import (
    Commit,
    Intent,
    Lease,
    LeaseHolder,
    PublishedFile,
    RunRecord,
    UnitEntry,
)
from dil.model.history import History, UnitStretches
from dil.model.json import JsonObject
from dil.spi.state_store import LAST_PUBLISH, StateStore, UnitState
from dil.state.chain import chain_rows, slices
from dil.state.chain.as_of import sequence_as_of, units_as_of
from dil.state.chain.chain_rows import PlannedHead, planned_now, still_holds
from dil.state.databases import sql, tables
from dil.state.databases.database import Database, Transaction
from dil.state.runs import details, leases, run_rows
from dil.state.store.table_checks import table_problems
from dil.state.work_units.history import SqlHistory, stretches_of
from dil.state.work_units.signatures import parts_of_signature

log = logging.getLogger(__name__)


class SqlStateStore(StateStore):
    """The state of one job in a database.

    ``clock`` returns epoch ms of the real clock; only leases use it. Threads may share a store. The
    head on which ``history`` was read protects a plan. If another writer has moved the head since,
    but the plan is still valid, its commit is written after the present head. If the plan is no
    longer valid, recording its intent, or committing it without an intent, is a conflict (rule
    C21).
    """

    def __init__(self, database: Database, job: str, *, clock: Callable[[], int]) -> None:
        self._database = database
        self._job = job
        self._clock = clock
        self._planned_on: PlannedHead | None = None

    def close(self) -> None:
        """Release the connection; a result of ``history`` may still be read."""
        self._database.close()

    # Lease

    def acquire_lease(self, run_id: str, *, lease_s: int, upgrade: bool = False) -> Lease:
        """Take the job's lease with a new, larger fencing token."""
        acquire = self._upgrade if upgrade else self._acquire
        try:
            return acquire(run_id, lease_s)
        except CommitConflictError:
            # Another run took the free lease at the same moment: read again to find out which one.
            return acquire(run_id, lease_s)

    def _acquire(self, run_id: str, lease_s: int) -> Lease:
        with self._database.write() as tx:
            return leases.acquire(tx, self._job, run_id, self._clock(), lease_s)

    def _upgrade(self, run_id: str, lease_s: int) -> Lease:
        """Take the lease and upgrade an older store, in one transaction."""
        older: list[int] = []

        def allow(tx: Transaction, found: int) -> None:
            leases.require_idle(tx, self._job, self._clock())
            older.append(found)

        with self._database.upgrade(allow) as tx:
            lease = leases.acquire(tx, self._job, run_id, self._clock(), lease_s)
        for number in older[-1:]:
            log.warning(
                "upgraded the state store %s from format %d to %d; as it was: %s",
                self._database.place, number, tables.FORMAT, self._database.copy_place(number),
            )  # fmt: skip
        return lease

    def heartbeat(self, lease: Lease) -> None:
        """Extend the lease to its full length from now."""
        with self._database.write() as tx:
            leases.prolong(tx, lease, self._clock())

    def release_lease(self, lease: Lease) -> None:
        """Release the lease; a lease that is no longer ours is left alone."""
        with self._database.write() as tx:
            leases.release(tx, lease)

    def lease_holder(self) -> LeaseHolder | None:
        """Return the holder of the job's lease; None if the lease is free."""
        with self._database.read() as tx:
            return leases.holder(tx, self._job, self._clock())

    @contextmanager
    def _fenced(self, lease: Lease) -> Iterator[Transaction]:
        """Open a transaction in which only the newest lease of the job may write.

        Raises:
            LeaseLostError: another run took the lease.
        """
        with self._database.write() as tx:
            leases.require_newest(tx, self._job, lease)
            yield tx

    # Planning

    def history(self) -> History:
        """Return the history that planning needs, from one point in time."""
        snapshot = self._database.snapshot()
        self._planned_on = planned_now(snapshot, self._job)
        history = SqlHistory(snapshot, self._job)
        weakref.finalize(history, snapshot.close)
        return history

    # Runs, intent, commit

    def begin_run(self, lease: Lease, run: RunRecord) -> None:
        """Record that a run started."""
        with self._fenced(lease) as tx:
            run_rows.begin(tx, self._job, run)

    def end_run(self, lease: Lease, run_id: str, status: str, *, rows: int, files: int) -> None:
        """Record the end of a run."""
        with self._fenced(lease) as tx:
            run_rows.end(tx, self._job, run_id, status, (rows, files))

    def unfinished_runs(self) -> Sequence[RunRecord]:
        """Return runs whose staging must be recovered or deleted, oldest first."""
        with self._database.read() as tx:
            return run_rows.unfinished(tx, self._job)

    def runs(self, *, limit: int | None = None) -> Iterator[RunRecord]:
        """Yield the recorded runs, newest first, from one point in time."""
        for row in islice(self._database.stream(sql.RUNS, self._job), limit):
            yield run_rows.as_run(self._job, row)

    def mark_swept(self, lease: Lease, run_id: str) -> None:
        """Record that a run's staging folder was deleted."""
        with self._fenced(lease) as tx:
            tx.change(sql.SWEPT_RUN, self._job, run_id)

    def record_intent(self, lease: Lease, intent: Intent) -> None:
        """Save the only intent of this job until it is committed.

        Raises:
            LeaseLostError: another run took the lease.
            CommitConflictError: the run is committed, or was planned on an older head.
            StateError: another intent is still pending, or this one could not be committed, for
                example because the end of the chain is damaged.
        """
        run_rows.check_commit(intent.commit)
        with self._fenced(lease) as tx:
            self._require_plan(tx, intent.commit)
            chain_rows.read_tip(tx, self._job)  # the commit reads it after rows are visible
            run_rows.keep_intent(tx, self._job, intent)
            if (intent.commit.moves or intent.commit.removes) and details.keeps_documents(tx):
                facts: JsonObject = {"sequence": intent.sequence, "destination": intent.destination}
                details.change_checkpoint(tx, self._job, LAST_PUBLISH, facts)

    def replace_intent(self, lease: Lease, intent: Intent) -> None:
        """Replace the pending intent of the same run by the part of it that is still to be done."""
        run_rows.check_commit(intent.commit)
        with self._fenced(lease) as tx:
            run_rows.replace_intent(tx, self._job, intent)

    def pending_intent(self) -> Intent | None:
        """Return the intent that was recorded and is not yet committed."""
        with self._database.read() as tx:
            return run_rows.pending(tx, self._job)

    def begun_publish(self) -> str | None:
        """Return the id of the run whose intent is pending, even if the intent cannot be read."""
        with self._database.read() as tx:
            row = tx.row(sql.INTENT_OF, self._job)
        return None if row is None else str(row[0])

    def commit(self, lease: Lease, commit: Commit) -> int | None:
        """Record a run's publish and results, once, and return the sequence of its block."""
        from dil.state.store import committing

        with self._fenced(lease) as tx:
            done, sequence = committing.committed_block(tx, self._job, commit.run_id)
            if not done:
                if tx.row(sql.INTENT_OF, self._job) is None:
                    self._require_plan(tx, commit)
                sequence = committing.record(tx, self._job, commit)
            after = planned_now(tx, self._job)
        if not done:
            log.info("committed %s", committing.describe(self._job, commit))
            self._planned_on = self._planned_on and after
        return sequence

    def last_rows(self) -> int | None:
        """Return the number of rows of the last run that published any."""
        with self._database.read() as tx:
            return run_rows.read_counters(tx, self._job).last_rows

    # Details and checkpoints

    def run_detail(self, run_id: str, kind: str) -> JsonObject | None:
        """Return the document of a run and a kind, None if there is none."""
        with self._database.read() as tx:
            return details.run_detail(tx, self._job, run_id, kind)

    def run_details(
        self, kind: str, *, limit: int | None = None
    ) -> Iterator[tuple[str, JsonObject]]:
        """Yield run ids with their documents of a kind, newest run first, from one snapshot."""
        with self._database.read() as tx:
            if not details.keeps_documents(tx):
                return
        rows = self._database.stream(sql.RUN_DETAILS, self._job, kind)
        for run_id, payload in islice(rows, limit):
            yield run_id, details.decoded(payload)

    def keep_run_details(
        self, lease: Lease, run_id: str, documents: Mapping[str, JsonObject]
    ) -> None:
        """Save documents of a run by kind, in place of earlier documents; all of them or none."""
        with self._fenced(lease) as tx:
            for kind, document in documents.items():
                details.keep_run_detail(tx, self._job, run_id, kind, document)

    def checkpoint(self, kind: str) -> JsonObject:
        """Return the members of the job's checkpoint of a kind, empty if there is none."""
        with self._database.read() as tx:
            return details.checkpoint(tx, self._job, kind)

    def change_checkpoint(self, lease: Lease, kind: str, members: JsonObject) -> None:
        """Set members of the job's checkpoint of a kind; the other members stay as they are."""
        with self._fenced(lease) as tx:
            details.change_checkpoint(tx, self._job, kind, members)

    # Inspection

    def head(self) -> JsonObject | None:
        """Return the newest block with its ``hash``, None for an empty chain."""
        with self._database.read() as tx:
            row = tx.row(sql.HEAD_BLOCK, self._job)
        return None if row is None else chain_rows.shown(row)

    def blocks(self) -> Iterator[JsonObject]:
        """Yield all blocks, newest first, each with its ``hash``, from one point in time."""
        for row in self._database.stream(sql.BLOCKS, self._job):
            yield chain_rows.shown(row)

    def blocks_of_kind(self, kind: str) -> Iterator[JsonObject]:
        """Yield the blocks of one kind of event, newest first, from one point in time."""
        for row in self._database.stream(sql.BLOCKS_OF_KIND, self._job, kind):
            yield chain_rows.shown(row)

    def own_files(self, files: Iterable[PublishedFile]) -> frozenset[str]:
        """Return the URIs of the files that the chain has, or that a recorded run published."""
        with self._database.read() as tx:
            return slices.own_of(tx, self._job, files)

    def live_uris(self, *, until: int | None = None) -> Iterator[str]:
        """Yield the URIs of the files that blocks up to ``until`` added and no block removed."""
        last = math.inf
        if until is not None:
            with self._database.read() as tx:
                last = slices.last_offset_at(tx, self._job, until)
        for uri, first in self._database.stream(sql.FILE_OFFSETS, self._job):
            if first <= last:
                yield uri

    def unit_states(self) -> Iterator[UnitState]:
        """Yield the work-unit index, ordered by partition start, then signature."""
        for signature, low, high, status, attempts in self._database.stream(
            sql.UNIT_STATES, self._job
        ):
            yield UnitState(signature, low, high, status, attempts)

    def unit_entries(self, *, as_of: int | None = None) -> Iterator[UnitEntry]:
        """Yield the index rows, of now or of just after a block, in ``unit_states`` order."""
        if as_of is not None:
            with self._database.read() as tx:
                rows = units_as_of(tx, self._job, as_of).values()
            for row in sorted(rows, key=lambda each: (each.low, each.signature)):
                yield UnitEntry(
                    row.signature, row.low, row.expected_high, row.high, row.status, row.attempts
                )
            return
        for signature, low, expected_high, high, status, attempts in self._database.stream(
            sql.UNIT_ENTRIES, self._job
        ):
            yield UnitEntry(signature, low, expected_high, high, status, attempts)

    def unit_stretches(self) -> Iterator[UnitStretches]:
        """Yield, for each unit with a record, the stretches of time that were read."""
        rows = self._database.stream(sql.UNIT_RECORDS, self._job)
        for _, group in groupby(rows, itemgetter(4)):
            records = list(group)
            signature: str = records[0][5]
            parts = parts_of_signature(signature)
            key = signature if parts is None else parts.unit_key
            yield stretches_of(key, records)

    def sequence_as_of(self, instant: int) -> int | None:
        """Return the sequence of the last block written at or before ``instant``, epoch ms UTC."""
        with self._database.read() as tx:
            return sequence_as_of(tx, self._job, instant)

    def count_swept_runs(self, before: int) -> int:
        """Return the number of runs without staging that began before an instant, epoch ms UTC."""
        with self._database.read() as tx:
            row = tx.row(sql.COUNT_SWEPT_RUNS, self._job, before)
        return 0 if row is None else int(row[0])

    def problems(self, live: Mapping[str, int | None]) -> Iterator[str]:
        """Yield the problems of the tables and of the files under them."""
        yield from self._database.problems()
        with self._database.read() as tx:
            yield from table_problems(tx, self._job, live)

    # Shape

    def recorded_shape(self) -> str | None:
        """Return the last saved text of from, zone and partition type."""
        with self._database.read() as tx:
            return run_rows.read_counters(tx, self._job).shape

    def record_shape(self, lease: Lease, shape: str) -> None:
        """Save the shape of this run's watermark; under a new shape no time counts as covered."""
        with self._fenced(lease) as tx:
            run_rows.keep_shape(tx, self._job, shape)

    def _require_plan(self, tx: Transaction, commit: Commit) -> None:
        planned = self._planned_on
        if planned is not None and not still_holds(tx, self._job, planned, commit):
            raise chain_rows.moved_head(self._job)
