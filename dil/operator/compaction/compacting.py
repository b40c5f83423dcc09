"""Compacts small live files into larger ones: an operator's act that keeps every row.

Files are rewritten in staging, then published like a run's files: intent, moves, removes, commit. A
crash before the intent is written changes nothing. After a later crash, the next run or compaction
finishes the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from dil.errors import ConfigError, StateError
from dil.model.dataset import (
    COMPACTION,
    Commit,
    Lease,
    OperatorAct,
    PublishedFile,
    is_compaction,
    source_name,
)
from dil.model.destination import TableFormat
from dil.model.job import Job
from dil.operator.compaction.planning import (
    CompactionPlan,
    CompactionRequest,
    FileGroup,
    commits_of,
    plan_compaction,
)
from dil.publishing.destination import destination_for
from dil.publishing.layout import run_staging_dir
from dil.publishing.moves import shared_moves
from dil.publishing.own_folders import own_runs
from dil.publishing.page_log import page_logs
from dil.publishing.publisher import Publisher, delete_staging
from dil.publishing.recovery import staged_work
from dil.publishing.run_commit import recorded_schema
from dil.run.lease import leased
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.storage import filesystem_for

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction, or of a dry run.

    ``added`` are the new files, ``removed`` counts the replaced files. ``finished`` is the run
    whose unfinished publish was completed first. ``vacuumed`` are paths of files that no version of
    the table needs any more; a dry run did not delete them.
    """

    plan: CompactionPlan
    act_id: str | None = None
    added: tuple[PublishedFile, ...] = ()
    removed: int = 0
    finished: str | None = None
    vacuumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def compact(job: Job, request: CompactionRequest) -> CompactionResult:
    """Compact the small files of a job's dataset.

    Raises:
        ConfigError: the job publishes no files of rows, or keeps no state.
        LeaseHeldError: a run is under way.
        StateError: complete results of a crashed run wait to be published.
        ConversionError: a file has changed since it was published; earlier commits of this
            compaction stay.
        WriteError: the file store refused.
    """
    _refuse_unfit(job, request)
    with open_store(job.state, job.name, clock=request.clock) as store:
        if not request.is_dry_run:
            with leased(job, store, COMPACTION, request.clock) as lease:
                return _Compaction(job, request, store, lease).run()
        filesystem = filesystem_for(job.publishing.final_dir)
        destination = destination_for(job.publishing, filesystem)
        vacuumed = _vacuum(destination, request)
        plan = plan_compaction(job, store, request, destination)
        intent = store.pending_intent()
        notes: tuple[str, ...] = ()
        if intent is not None:
            notes = (f"{intent.commit.run_id} began to publish; its publish is finished first",)
        return CompactionResult(plan, vacuumed=vacuumed, notes=notes)


def _refuse_unfit(job: Job, request: CompactionRequest) -> None:
    spec = job.publishing
    if not job.state.enabled:
        raise ConfigError.single(
            "state.store.enabled",
            f"is off: no chain says which files {job.name} published",
            "Only datasets of jobs that keep state can be compacted.",
            job.properties.origin("state.store.enabled"),
        )
    if not spec.keeps_files:
        raise ConfigError.single(
            spec.place_key,
            "is set: the rows are in a database, which manages its own files",
            "`dil compact` is for files, Delta and Iceberg tables.",
        )
    if job.writing.own is not None:
        raise ConfigError.single(
            "ms.writer.class",
            "is set, and files of the job's own writer class cannot be rewritten",
            "`dil compact` is for files of the built-in formats.",
        )
    if job.writing.file_name:
        raise ConfigError.single(
            "ms.extractor.class",
            "dumps files unchanged, so their content is unknown",
            "`dil compact` is for files of rows.",
        )
    if request.vacuum_hours is not None and spec.table.format is TableFormat.FILES:
        raise ConfigError.single(
            "--vacuum-hours",
            "is only for tables that keep earlier versions, and ms.table.format is files",
            "Leave it out: replaced files are deleted at once.",
        )


def _vacuum(destination: Destination, request: CompactionRequest) -> tuple[str, ...]:
    hours = request.vacuum_hours
    if hours is None:
        return ()
    return destination.vacuum(hours=hours, now_ms=request.clock(), is_look=request.is_dry_run)


class _Compaction:
    """One compaction under the job's lease."""

    def __init__(
        self, job: Job, request: CompactionRequest, store: StateStore, lease: Lease
    ) -> None:
        self._job = job
        self._request = request
        self._store = store
        self._lease = lease
        self._id = lease.holder.run_id
        self._publisher = Publisher.of(job, store)
        self._files = self._publisher.filesystem
        self._destination = self._publisher.destination
        self._staging = run_staging_dir(job.publishing, job.name, self._id)

    def run(self) -> CompactionResult:
        """Finish a pending publish, then compact, then vacuum."""
        pending = self._publisher.finish_pending(self._lease)
        self._refuse_staged_work()
        root = self._staging.rpartition("/")[0]
        for name in self._files.folders(root):
            if is_compaction(name) and name != self._id:  # of a killed compaction
                delete_staging(self._files, f"{root}/{name}")
        self._destination.refuse_deleted_rows()
        plan = plan_compaction(self._job, self._store, self._request, self._destination)
        added: list[PublishedFile] = []
        removed = 0
        for number, groups in enumerate(commits_of(plan.groups, self._request.files_per_commit), 1):
            commit = self._commit(f"{self._id}-{number}", groups)
            self._publisher.publish(self._lease, commit)
            added += [move.target for move in commit.moves]
            removed += len(commit.removes)
            log.info("compacted %d files into %d", len(commit.removes), len(commit.moves))
        delete_staging(self._files, self._staging)
        self._files.delete_empty_folder(root)
        return CompactionResult(
            plan=plan,
            act_id=self._id,
            added=tuple(added),
            removed=removed,
            finished=None if pending is None else pending.run_id,
            vacuumed=_vacuum(self._destination, self._request),
        )

    def _refuse_staged_work(self) -> None:
        """Refuse while complete results of a run wait in staging: a commit would supersede them."""
        spec, recorded = self._job.publishing, self._store.unfinished_runs()
        for run in own_runs(recorded, spec, self._job.name, self._files):
            is_kept = run.is_open and (
                staged_work(self._files, run) or page_logs(self._files, run.staging_dir)
            )
            if is_kept:
                raise StateError(
                    f"completed results of run {run.run_id} wait in staging, and would have to be "
                    "read again after a compaction",
                    "Run the job first, or give the results up with `dil runs clean`.",
                )

    def _commit(self, act_id: str, groups: Sequence[FileGroup]) -> Commit:
        """Rewrite files in staging, and return the commit that puts them in place."""
        # imported here, because a dry run needs no Arrow
        from dil.reshaping.shared_files import SharedFileWriter, shared_file_of

        job, path_of = self._job, self._files.path_of
        write = SharedFileWriter.of(job, self._staging, recorded_schema(self._store))
        shared = [
            write(shared_file_of(group.files, f"{act_id}-{number}", path_of))
            for number, group in enumerate(groups)
        ]
        now = self._request.clock()
        return Commit(
            run_id=act_id,
            config_digest=job.digest,
            source_name=source_name(job.name),
            moves=tuple(shared_moves(job, act_id, shared, self._destination.uri)),
            removes=tuple(file for group in groups for file in group.files),
            schema="",
            system_time=now,
            horizon=now,
            act=OperatorAct(COMPACTION, "small files joined"),
        )
